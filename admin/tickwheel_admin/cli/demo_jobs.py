"""What the demo shows: an executor and jobs of every kind, made where they are missing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.app import Services
from tickwheel_admin.services.people import COMMAND_LINE
from tickwheel_admin.store.nodes import executor_of_token

EXECUTOR = "demo"

JOBS: tuple[Mapping[str, Any], ...] = (
    {
        "name": "quick",
        "handler": "quick",
        "description": "Runs every five seconds and ends at once.",
        "owner": "demo",
        "tags": ["example"],
        "triggers": [{"kind": "fixed_rate", "every_seconds": 5}],
    },
    {
        "name": "slow-report",
        "handler": "slow-report",
        "description": "Twenty seconds of work with progress; open a run and watch its log.",
        "owner": "demo",
        "tags": ["example", "report"],
        "parameters": {"month": "2026-10", "seconds": 20},
        "routing": "least_busy",
        "timeout_seconds": 300,
        "triggers": [{"kind": "fixed_rate", "every_seconds": 90}],
    },
    {
        "name": "flaky",
        "handler": "flaky",
        "description": "Fails now and then and is tried again, up to three times.",
        "owner": "demo",
        "tags": ["example", "payments"],
        "routing": "random",
        "timeout_seconds": 30,
        "retries": 3,
        "retry_delay_seconds": 2,
        "triggers": [{"kind": "fixed_rate", "every_seconds": 20}],
    },
    {
        "name": "minutely-cleanup",
        "handler": "minutely-cleanup",
        "description": "Every minute, by a cron expression.",
        "owner": "demo",
        "tags": ["example"],
        "triggers": [
            {"kind": "cron", "expression": "* * * * *", "dialect": "unix", "timezone": "UTC"}
        ],
    },
    {
        "name": "sync-export",
        "handler": "sync-export",
        "description": "Has no schedule: run it by hand, with other parameters if you like.",
        "owner": "demo",
        "tags": ["example", "manual"],
        "parameters": {"rows": 500},
        "timeout_seconds": 600,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoData:
    """What the demo needs to start its processes and tell people."""

    token: str  # of the executor
    password: str | None  # one-time password; None when the first admin was made before


async def fill(services: Services, known_token: str | None) -> DemoData:
    """Make what is missing; what somebody changed or deleted since the first time stays so.

    Args:
        known_token: what an earlier demo kept; another one is made when it does not work any more.
    """
    password = await services.people.ensure_first_admin()
    executors = {item.name: item for item in await services.executors.list(COMMAND_LINE)}
    if EXECUTOR in executors:
        executor_id = executors[EXECUTOR].id
        if known_token is not None and await _opens(services, known_token, executor_id):
            return DemoData(token=known_token, password=password)
        new = await services.executors.rotate_token(COMMAND_LINE, executor_id)
        return DemoData(token=new.token, password=password)
    new = await services.executors.create(
        COMMAND_LINE, name=EXECUTOR, description="The example service of the demo."
    )
    for raw in JOBS:
        await services.jobs.create(COMMAND_LINE, new.id, raw)
    return DemoData(token=new.token, password=password)


async def _opens(services: Services, token: str, executor_id: int) -> bool:
    found = await services.store.read(executor_of_token, hashlib.sha256(token.encode()).hexdigest())
    return found is not None and found[0] == executor_id
