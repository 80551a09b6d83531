"""People of the simulated cluster who start, pause and cancel backfills."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.simulation.admin_host import AdminHost
from tests.simulation.database import SimDatabase
from tests.simulation.history import History
from tests.simulation.operators import OPERATOR, Operators
from tickwheel_admin.services.backfills.requests import BackfillRequest

MINUTE_MS = 60_000
MOST_INSTANTS = 40  # wanted of one backfill, so that a cluster settles in time


class Fillers:
    """People who fill in the past of jobs."""

    def __init__(
        self,
        admins: Sequence[AdminHost],
        operators: Operators,
        database: SimDatabase,
        random: Random,
        history: History,
    ) -> None:
        self._admins = admins
        self._operators = operators
        self._database = database
        self._random = random
        self._history = history
        self._keys = 0
        self.answers: dict[tuple[int, str], list[int]] = {}  # by job and key
        self.cancelled_by: dict[int, int] = {}  # by backfill: the last change before the answer

    async def work(self) -> None:
        """Do something every now and then, until cancelled."""
        while True:
            await asyncio.sleep(self._random.uniform(0.2, 2))
            serving = [admin for admin in self._admins if admin.is_up]
            if serving:
                action = self._random.choice(
                    (self._start, self._start, self._start, self._pause, self._resume, self._cancel)
                )
                self._operators.spawn(action, self._random.choice(serving))

    async def restore(self) -> None:
        """Let those go on that were paused: again until it was confirmed."""
        while paused := self._of("paused"):
            for row in paused:
                await self._operators.attempt(
                    lambda admin, of=row.id: admin.backfills.resume(OPERATOR, of)
                )
            await asyncio.sleep(0.5)

    async def _start(self, admin: AdminHost) -> None:
        rows = self._database.rows(
            'SELECT t.id, t.job_id FROM "trigger" t JOIN job ON job.id = t.job_id'
            " WHERE job.deleted_at = 0 AND t.calendar IS NULL ORDER BY t.id"
        )
        if not rows:
            return
        chosen = self._random.choice(rows)
        to_at = self._database.now() - self._random.choice((0, 0, 5_000, MINUTE_MS))
        length = self._random.choice((5_000, 20_000, MINUTE_MS, 60 * MINUTE_MS))
        request = BackfillRequest(
            from_at=to_at - length,
            to_at=to_at,
            trigger_id=chosen.id,
            newest_first=self._random.random() < 0.4,
            parallel=self._random.choice((1, 3, 10)),
        )
        seen = await admin.backfills.preview(OPERATOR, chosen.job_id, request)
        if not 0 < seen.total <= MOST_INSTANTS:
            return
        self._keys += 1
        key = f"fill-{self._keys}"
        for _ in range(self._random.choice((1, 1, 2))):
            backfill_id = await admin.backfills.create(
                OPERATOR, chosen.job_id, request, request_key=key
            )
            self.answers.setdefault((chosen.job_id, key), []).append(backfill_id)
            self._history.note("operator", f"fills in {seen.total} instants: {backfill_id}")

    async def _pause(self, admin: AdminHost) -> None:
        if rows := self._of("running"):
            await admin.backfills.pause(OPERATOR, self._random.choice(rows).id)

    async def _resume(self, admin: AdminHost) -> None:
        if rows := self._of("paused"):
            await admin.backfills.resume(OPERATOR, self._random.choice(rows).id)

    async def _cancel(self, admin: AdminHost) -> None:
        rows = self._of("running") + self._of("paused")
        if not rows or self._random.random() < 0.5:
            return
        backfill_id = self._random.choice(rows).id
        await admin.backfills.cancel(OPERATOR, backfill_id)
        [row] = self._database.rows("SELECT max(seq) AS seq FROM sim_change")
        self.cancelled_by[backfill_id] = row.seq
        self._history.note("operator", f"cancelled backfill {backfill_id}")

    def _of(self, state: str) -> list[Any]:
        return self._database.rows("SELECT id FROM backfill WHERE state = ? ORDER BY id", (state,))
