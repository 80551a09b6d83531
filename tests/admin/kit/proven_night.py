"""A night of which a proof tells: two hours with all kinds of outcomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.admin.kit.served import Served, served
from tests.admin.kit.services import RUN_COLUMNS, run_row
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.proof.sums import HOUR_MS
from tickwheel_admin.domain.self_audit.absences import Absence, packed
from tickwheel_admin.domain.self_audit.comparison import (
    AuditCount,
    DifferenceKind,
    LedgerDifference,
)
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.services.proof.service import Proof, ProofPeriod
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.failures.groups import insert_groups
from tickwheel_admin.store.self_audit.results import EVERYBODY, write_hour

MINUTE_MS = 60_000
GROUP = 77


class Night:
    """Two hours with a run each minute, of which some go wrong; the first hour is audited."""

    def __init__(self, admin: Served, executor_id: int, job_id: int) -> None:
        self.admin = admin
        self.services = admin.services
        self.executor_id = executor_id
        self.job_id = job_id
        self.hour_at = 0

    async def begin(self) -> None:
        now = self.admin.clock.now
        self.hour_at = now - now % HOUR_MS - 2 * HOUR_MS
        rows = [self._run(n) for n in range(120)]
        group = FailureGroup(
            id=GROUP, executor_id=self.executor_id, text="bank-gw refused", since=self.hour_at,
            last_at=now, runs=2, jobs=1, first_run_id=5, first_job_id=self.job_id,
            first_revision=1, first_node_id=None, last_run_id=6, owner="ann", notes="called bank",
            acknowledged_by="bob", acknowledged_at=now,
        )  # fmt: skip

        def insert(conn: sa.Connection) -> None:
            insert_rows(conn, tables.run, rows, columns=RUN_COLUMNS)
            insert_groups(conn, [group])

        await self.services.store.run(insert)
        await self.audit()

    def _run(self, n: int) -> dict[str, Any]:
        at = self.hour_at + n * MINUTE_MS
        outcomes: dict[int, dict[str, Any]] = {
            1: {"tries": 2},
            2: {"state": "failed", "error_id": GROUP},
            3: {"state": "skipped", "reason": "discarded", "started_at": None},
            4: {"state": "lost"},
            5: {"started_at": at + 61_000},
            6: {"state": "running"},
            7: {"trigger_id": None},  # by hand: it is no fire
            8: {"fire_id": 1},  # a shard, which its whole fire tells of
        }
        changed = outcomes.get(n, {})
        whole = {
            "executor_id": self.executor_id, "job_id": self.job_id, "trigger_id": 9,
            "scheduled_at": at, "created_at": at, "due_at": at, "state": "succeeded", "tries": 1,
            "started_at": at + 1_000, "ended_at": at + 2_000,
        }  # fmt: skip
        return dict.fromkeys(RUN_COLUMNS) | run_row(n + 1, whole | changed)

    async def audit(
        self, *, audited: int = 1, absences: Sequence[Absence] | None = None, **changed: Any
    ) -> None:
        """As the loop writes it: 60 instants, two of them paused, one missing, 57 runs of them."""
        count = AuditCount(expected=61, happened=56, fires=58)
        count.explained.update({"paused": 2, "discarded": 1})
        count.absent["paused"] = 2
        count.differences["missing"] = 1
        missing = LedgerDifference(
            trigger_id=9, job_id=self.job_id, executor_id=self.executor_id,
            at=self.hour_at + 7 * MINUTE_MS, what=DifferenceKind.MISSING,
        )  # fmt: skip
        found = [
            Absence(
                trigger_id=9, job_id=self.job_id, executor_id=self.executor_id, reason=reason,
                spans=packed(instants),
            )
            for reason, instants in (
                ("missing", [self.hour_at + 7 * MINUTE_MS]),
                ("paused", [self.hour_at + 8 * MINUTE_MS, self.hour_at + 59 * MINUTE_MS + 1]),
            )
        ]  # fmt: skip
        for name, value in changed.items():
            setattr(count, name, value)
        await self.services.store.run(
            write_hour,
            self.hour_at,
            {EVERYBODY: count, self.executor_id: count},
            [missing],
            absences=found if absences is None else absences,
            triggers=[9],
            audited=[9][:audited],
            now=self.hour_at + HOUR_MS + 5 * MINUTE_MS,
        )

    async def period(self, actor: Actor = COMMAND_LINE, **wanted: Any) -> ProofPeriod:
        wanted = {"from_at": self.hour_at, "until_at": self.hour_at + 2 * HOUR_MS} | wanted
        return await self.services.proofs.period(actor, **wanted)

    async def prove(self, **wanted: Any) -> Proof:
        return await self.services.proofs.sums(COMMAND_LINE, await self.period(**wanted))

    async def change(self, statement: Any) -> None:
        await self.services.store.run(lambda conn: conn.execute(statement) and None)


@asynccontextmanager
async def proven_night(directory: Path) -> AsyncIterator[Night]:
    """It has happened, and its first hour is audited."""
    async with served(directory) as admin:
        executor = await admin.services.executors.create(
            COMMAND_LINE, name="billing", description=""
        )
        job_id = await admin.services.jobs.create(
            COMMAND_LINE, executor.id, {"name": "bills", "handler": "h", "owner": "carl"}
        )
        found = Night(admin, executor.id, job_id)
        await found.begin()
        yield found
