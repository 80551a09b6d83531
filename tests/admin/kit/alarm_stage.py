"""Jobs whose runs end as a test says, and the alarms made of that, on a clock that it turns."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from tests.admin.kit.alarms import Alarms
from tests.admin.kit.clock import Clock
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database

BERLIN = "Europe/Berlin"
run_ids = itertools.count(5_000)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN)).timestamp() * 1000)


class Stage:
    """Jobs that end as the test says, and alarms made of that."""

    def __init__(self, database: Database, clock: Clock, *, restarts: bool = False) -> None:
        """
        Args:
            restarts: whatever is asked of alarms, another admin does it that has just started.
        """
        self.database = database
        self.clock = clock
        self._restarts = restarts
        self._alarms = Alarms(database)

    @property
    def alarms(self) -> Alarms:
        """The loops of the admin that is up now."""
        if self._restarts:
            self._alarms = Alarms(self.database, provider=self._alarms.provider)
        return self._alarms

    @alarms.setter
    def alarms(self, alarms: Alarms) -> None:
        self._alarms = alarms

    async def fail(
        self,
        job_id: int,
        kind: AlarmKind = AlarmKind.FAILED,
        *,
        executor_id: int = 1,
        origin: Origin = Origin.SCHEDULE,
    ) -> int:
        """A run of the job ends so now; returns it."""
        run_id = await self._run(job_id, "failed", executor_id, origin)
        signal = AlarmSignal(
            kind=kind,
            subject_id=run_id,
            at=self.clock.now,
            executor_id=executor_id,
            job_id=job_id,
        )
        await self.database.run(add_signals, [signal])
        return run_id

    async def succeed(self, job_id: int) -> int:
        return await self._run(job_id, "succeeded", 1)

    async def _run(
        self, job_id: int, state: str, executor_id: int, origin: Origin = Origin.SCHEDULE
    ) -> int:
        run_id = next(run_ids)
        row: dict[str, Any] = {
            "id": run_id,
            "executor_id": executor_id,
            "job_id": job_id,
            "job_revision": 1,
            "origin": origin.value,
            "scheduled_at": self.clock.now,
            "shard_index": 0,
            "shard_total": 1,
            "priority": 5,
            "created_at": self.clock.now,
            "state": state,
            "due_at": self.clock.now,
            "attempt": 1,
            "tries": 1,
            "started_at": self.clock.now,
            "ended_at": self.clock.now,
            "message": "Traceback:\n  File x\nValueError: no money\n"
            if state == "failed"
            else None,
            "log_lines": 0,
        }
        await self.database.run(lambda c: c.execute(sa.insert(tables.run).values(row)).close())
        return run_id

    async def after(self, seconds: float) -> list[list[tuple[str, str]]]:
        """What is told so much later."""
        self.clock.advance(seconds)
        return await self.alarms.tell()
