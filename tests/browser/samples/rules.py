"""More of the sample installation: shards, runs in line, children, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tests.browser.samples.rows import ADMIN, NOW, row
from tests.browser.samples.scripts import READY_MADE
from tickwheel_admin.domain.runs.run import PARKED_AT
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database import tables

MINUTE = 60_000
HANDLERS = {  # that nodes offer for these jobs, and for those of `routing`
    "billing": ("billing.ledger-sync",),
    "crm": ("crm.customer-cache",),
    "infra": ("infra.warm-caches", *READY_MADE),
    "ml": ("ml.vector-refresh",),
    "warehouse": ("warehouse.partition-sweep", "warehouse.stock-sync"),
}


async def add_rules(
    services: Services, job_ids: dict[str, int], executor_ids: dict[str, int], ids: Iterator[int]
) -> dict[str, int]:
    """Add jobs with rules of every kind and runs that follow them; returns ids by name."""
    for executor, name, changes in _jobs(job_ids):
        job_ids[name] = await services.jobs.create(
            ADMIN,
            executor_ids[executor],
            {"name": name, "handler": f"{executor}.{name}", "owner": "ana", **changes},
        )
    return await services.store.run(_add_runs, job_ids, executor_ids, ids)


def _jobs(job_ids: dict[str, int]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (
            "warehouse",
            "partition-sweep",
            {
                "routing": "shards",
                "shards": 12,
                "start_within_seconds": 1800,
                "triggers": [
                    {
                        "kind": "cron", "expression": "25 * * * *", "timezone": "Europe/Berlin",
                        "misfire": "fire_all", "catch_up_limit": 6,
                        "misfire_threshold_seconds": 60,
                    },
                    {"kind": "fixed_delay", "every_seconds": 900},
                ],
            },
        ),
        (
            "infra",
            "warm-caches",
            {
                "routing": "broadcast",
                "children": [
                    {"job": job_ids["log-rotate"], "on": "always"},
                    {"job": job_ids["dunning-emails"], "on": "failure"},
                ],
            },
        ),
        (
            "warehouse",
            "stock-sync",
            {
                "blocking": "serial",
                "concurrency": 1,
                "max_waiting": 20,
                "when_cut_off": "continue",
                "hold_lost_seconds": 1800,
                "timeout_seconds": 600,
                "retries": 2,
                "retry_jitter": 0.2,
                "retry_on": ["failed"],
            },
        ),
    ]  # fmt: skip


def _add_runs(
    conn: sa.Connection, job_ids: dict[str, int], executor_ids: dict[str, int], ids: Iterator[int]
) -> dict[str, int]:
    made: dict[str, int] = {}
    rows: list[dict[str, object]] = []
    infra, warehouse = executor_ids["infra"], executor_ids["warehouse"]

    # A run cut into twelve parts, half way.
    sweep = job_ids["partition-sweep"]
    fire = made["run:fire"] = next(ids)
    rows.append(
        row(
            id=fire, executor_id=warehouse, job_id=sweep, scheduled_at=NOW - 6 * MINUTE,
            created_at=NOW - 6 * MINUTE, due_at=NOW - 6 * MINUTE, state="running",
            shard_index=-1, shard_total=12, dispatched_at=NOW - 6 * MINUTE + 5,
            started_at=NOW - 6 * MINUTE + 5, deadline_at=NOW + 4 * MINUTE,
        )
    )  # fmt: skip
    states = ["succeeded"] * 5 + ["failed", "running", "running", "running", "lost"]
    for index, state in enumerate([*states, "queued", "queued"]):
        began = None if state == "queued" else NOW - 6 * MINUTE + 9
        live = state in ("running", "queued")
        shard = next(ids)
        if state == "failed":
            made["run:shard"] = shard
        rows.append(
            row(
                id=shard, executor_id=warehouse, job_id=sweep, scheduled_at=NOW - 6 * MINUTE,
                created_at=NOW - 6 * MINUTE, due_at=NOW - 6 * MINUTE, state=state,
                shard_index=index, shard_total=12, fire_id=fire,
                node_id=None if state == "queued" else 9 + index % 2,
                attempt=0 if state == "queued" else 1, tries=0 if state == "queued" else 1,
                dispatched_at=began, started_at=began,
                ended_at=None if live else NOW - (300 - 11 * index) * 1000,
                deadline_at=NOW + MINUTE if live else None,
                reason="node_lost" if state == "lost" else None,
                message="ValueError: partition 5 is locked" if state == "failed" else None,
                progress=0.2 + index / 20 if state == "running" else None,
            )
        )  # fmt: skip

    # A broadcast that is over, one node of which failed; and the child that it asked for.
    warm = job_ids["warm-caches"]
    over = made["run:fire-failed"] = next(ids)
    began, ended = NOW - 9 * MINUTE, NOW - 8 * MINUTE
    rows.append(
        row(
            id=over, executor_id=infra, job_id=warm, scheduled_at=began, created_at=began,
            due_at=began, state="failed", shard_index=-1, shard_total=2, origin="manual",
            requested_by="ana", dispatched_at=began, started_at=began, ended_at=ended,
            reason="shards", message="1 of 2 shards failed.",
            result='{"shards":{"failed":1,"succeeded":1}}',
        )
    )  # fmt: skip
    for index, state in enumerate(("succeeded", "failed")):
        rows.append(
            row(
                id=next(ids), executor_id=infra, job_id=warm, scheduled_at=began,
                created_at=began, due_at=began, state=state, shard_index=index, shard_total=2,
                fire_id=over, pinned_node_id=5 + index, node_id=5 + index, dispatched_at=began,
                started_at=began, ended_at=ended,
                message="OSError: no space left on device" if state == "failed" else None,
            )
        )  # fmt: skip
    rows.append(
        row(
            id=next(ids), executor_id=infra, job_id=job_ids["log-rotate"], scheduled_at=ended,
            created_at=ended, due_at=ended, state="succeeded", origin="child",
            parent_run_id=over, request_key=f"child-of:{over}", node_id=5, dispatched_at=ended,
            started_at=ended, ended_at=ended + 4_000,
        )
    )  # fmt: skip

    # One after the other: the first was cancelled and goes on, the second waits for it.
    stock = job_ids["stock-sync"]
    stuck = made["run:still-running"] = next(ids)
    rows.append(
        row(
            id=stuck, executor_id=warehouse, job_id=stock, scheduled_at=NOW - 11 * MINUTE,
            created_at=NOW - 11 * MINUTE, due_at=NOW - 11 * MINUTE, state="running", node_id=9,
            dispatched_at=NOW - 11 * MINUTE, started_at=NOW - 11 * MINUTE,
            deadline_at=NOW + MINUTE, cancel_requested_at=NOW - MINUTE,
            cancel_reason="operator", reason="cancel_unconfirmed", claim_token="t" * 32,
            blocking_key=stock * 2 + 1,
        )
    )  # fmt: skip
    parked = made["run:parked"] = next(ids)
    rows.append(
        row(
            id=parked, executor_id=warehouse, job_id=stock, scheduled_at=NOW - 3 * MINUTE,
            created_at=NOW - 3 * MINUTE, due_at=PARKED_AT, state="queued", attempt=0, tries=0,
            deadline_at=NOW + 20 * MINUTE, reason="blocked", blocking_key=stock * 2,
        )
    )  # fmt: skip

    # Everything that is never started, each for its own reason.
    missed = f'{{"missed":7,"from":{NOW - 50 * MINUTE},"to":{NOW - 30 * MINUTE}}}'
    reasons = ("discarded", "covered", "too_many_waiting", "expired", "paused", "by_handler")
    for minutes, reason in enumerate((*reasons, "misfire"), 12):
        at = NOW - minutes * MINUTE
        made[f"run:{reason}"] = next(ids)
        rows.append(
            row(
                id=made[f"run:{reason}"], executor_id=warehouse, job_id=stock, scheduled_at=at,
                created_at=at, due_at=at, state="skipped", attempt=0, tries=0, ended_at=at,
                reason=reason,
                message={"by_handler": "nothing new since 13:10", "misfire": missed}.get(reason),
            )
        )  # fmt: skip
    conn.execute(tables.run.insert(), rows)
    return made
