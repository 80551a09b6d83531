"""A morning on which runs waited for others: one node with one slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tests.admin.kit.served import Served
from tests.admin.kit.services import FAR, RUN_COLUMNS, run_row
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows

MINUTE = 60_000
ETL, MAIL, SECOND_MAIL = 1, 2, 3  # runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """Who was there."""

    executor_id: int
    etl: int  # a job whose run held the slot for ten minutes
    mail: int  # a job whose runs waited for it: one for eight minutes, the other for nine


async def delayed_morning(admin: Served) -> Morning:
    """Half an hour ago."""
    executor = await admin.services.executors.create(COMMAND_LINE, name="billing", description="")
    jobs = [
        await admin.services.jobs.create(
            COMMAND_LINE, executor.id, {"name": name, "handler": "h", "owner": "carl"}
        )
        for name in ("etl <b>", "mail")
    ]
    began = admin.clock.now - 30 * MINUTE
    node = {
        "id": 7, "executor_id": executor.id, "node_key": "key", "name": "host", "state": "live",
        "draining": False, "cordoned": False, "drain_wanted": False, "slots": 1, "in_use": 0,
        "weight": 1, "handlers": '["h"]', "unstoppable": "[]", "labels": "{}", "sdk": "x",
        "address": "192.0.2.9", "connected_at": began - MINUTE, "lease_expires_at": FAR,
        "full_lease_at": FAR,
    }  # fmt: skip

    def run(run_id: int, job: int, due: int, claimed: int, ended: int) -> dict[str, Any]:
        due, claimed, ended = (began + minutes * MINUTE for minutes in (due, claimed, ended))
        return dict.fromkeys(RUN_COLUMNS) | run_row(
            run_id,
            {
                "executor_id": executor.id, "job_id": jobs[job], "scheduled_at": due,
                "created_at": due, "due_at": due, "state": "succeeded", "tries": 1, "attempt": 1,
                "node_id": 7, "claim_token": "t", "dispatched_at": claimed, "started_at": claimed,
                "ended_at": ended,
            },
        )  # fmt: skip

    rows = [
        run(ETL, 0, 0, 0, 10),
        run(MAIL, 1, 2, 10, 12),
        run(SECOND_MAIL, 1, 3, 12, 13),
    ]

    def insert(conn: sa.Connection) -> None:
        conn.execute(sa.insert(tables.node).values(node))
        insert_rows(conn, tables.run, rows, columns=RUN_COLUMNS)

    await admin.services.store.run(insert)
    return Morning(executor_id=executor.id, etl=jobs[0], mail=jobs[1])
