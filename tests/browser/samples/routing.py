"""More of the sample installation: jobs with other routing, reasons of choices, a kept state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tests.browser.samples.rows import ADMIN, NOW, row
from tickwheel_admin.domain.routing.choice import Choice, PassedOver, Why
from tickwheel_admin.services.services import Services
from tickwheel_admin.store.database import tables

MINUTE = 60_000


async def add_routing(
    services: Services, job_ids: dict[str, int], executor_ids: dict[str, int], ids: Iterator[int]
) -> dict[str, int]:
    """Add jobs whose nodes are chosen in other ways, and runs that say why; returns ids by name."""
    made = await services.executors.create(
        ADMIN, name="archive", description="Cold storage; its nodes are started at night"
    )
    executor_ids["archive"] = made.id
    for executor, name, changes in _jobs():
        job_ids[name] = await services.jobs.create(
            ADMIN,
            executor_ids[executor],
            {"name": name, "handler": f"{executor}.{name}", "owner": "yuki", **changes},
        )
    return await services.store.run(_add_runs, job_ids, executor_ids, ids)


def _jobs() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (
            "ml",
            "vector-refresh",
            {"routing": "weighted", "selector": "gpu,zone in (eu, us)", "retries": 3},
        ),
        ("crm", "customer-cache", {"routing": "consistent_hash", "hash_by": "customer"}),
        ("archive", "move-to-tape", {}),
        ("billing", "ledger-sync", {"routing": "failover", "nodes": ["billing-b*", "billing-a1"]}),
    ]


def _add_runs(
    conn: sa.Connection, job_ids: dict[str, int], executor_ids: dict[str, int], ids: Iterator[int]
) -> dict[str, int]:
    made: dict[str, int] = {}
    chosen = Choice(
        by="least_busy",
        candidates=2,
        used=3,
        slots=16,
        passed=(PassedOver("ml-b1", Why.CORDONED), PassedOver("ml-d1", Why.FULL)),
        more_passed=2,
    )
    made["run:reasoned"] = next(ids)
    conn.execute(
        tables.run.insert(),
        [
            row(
                id=made["run:reasoned"], executor_id=executor_ids["ml"],
                job_id=job_ids["vector-refresh"], scheduled_at=NOW - 2 * MINUTE,
                created_at=NOW - 2 * MINUTE, due_at=NOW - 2 * MINUTE, state="running",
                origin="api", requested_by="ana", attempt=2, tries=2, node_id=7,
                dispatched_at=NOW - MINUTE, started_at=NOW - MINUTE, claim_token="t" * 32,
                deadline_at=NOW + 60 * MINUTE, progress=0.4, choice=chosen.to_json(),
            )
        ],
    )  # fmt: skip
    made["run:no-node"] = next(ids)
    conn.execute(
        tables.run.insert(),
        [
            row(
                id=made["run:no-node"], executor_id=executor_ids["archive"],
                job_id=job_ids["move-to-tape"], scheduled_at=NOW - 12_000, origin="manual",
                created_at=NOW - 12_000, due_at=NOW - 12_000, state="queued", attempt=0, tries=0,
                requested_by="ana",
            )
        ],
    )  # fmt: skip
    conn.execute(
        tables.run_attempt.insert().values(
            run_id=made["run:reasoned"], attempt=1, state="lost", node_id=99, claim_token=None,
            dispatched_at=NOW - 2 * MINUTE, started_at=NOW - 2 * MINUTE, ended_at=NOW - MINUTE,
            reason="node_lost", message=None, log_lines=0, late_outcome=None, late_message=None,
            late_at=None,
            choice=Choice(by="weighted", candidates=3, used=0, slots=4, detail=(3, 5)).to_json(),
        )
    )  # fmt: skip
    conn.execute(
        tables.run_checkpoint.insert().values(
            run_id=made["run:reasoned"], attempt=1, seq=4, saved_at=NOW - 70_000,
            data=json.dumps({"shard": "2026-11-19", "rows": 118_000}),
        )
    )  # fmt: skip
    conn.execute(
        tables.job_state.insert().values(
            job_id=job_ids["stock-sync"], run_id=None, updated_at=NOW - 26 * MINUTE,
            state=json.dumps({"cursor": "2026-11-20T13:05:00Z", "articles": 1_042}),
        )
    )  # fmt: skip
    return made
