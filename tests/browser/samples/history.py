"""A job that people changed several times, and one whose former calendar is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.browser.samples.rows import ADMIN
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.services.services import Services

# Who changed what of "invoice-close", one revision after the other.
CHANGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("maria", {"retries": 5, "timeout_seconds": 3600}),
    (
        "li.wei",
        {
            "triggers": [
                {"kind": "cron", "expression": "0 3 1-3 * *", "timezone": "Europe/Berlin"},
                {"kind": "cron", "expression": "0 2 * * 1-5", "timezone": "Europe/Berlin"},
            ],
            "description": "Closes the invoices of the day before.\nAsk finance before changing.",
        },
    ),
    (
        "maria",
        {
            "parameters": {"date": "2026-11-20", "shards": 16, "dry_run": False, "region": "eu"},
            "blocking": "serial",
            "max_waiting": 2,
        },
    ),
)


async def add_revisions(services: Services, job_ids: dict[str, int]) -> None:
    """Change the job as `CHANGES` say."""
    job_id = job_ids["invoice-close"]
    for revision, (person, change) in enumerate(CHANGES, 1):
        config = (await services.jobs.get(ADMIN, job_id)).item.job.config
        raw = job_to_raw(config) | change
        await services.jobs.update(replace(ADMIN, name=person), job_id, raw, revision=revision)
