"""XXL-JOB's database as the take-over needs it, over a real connection in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

from tickwheel_admin.domain.xxl_job.take_over import TheirState
from tickwheel_admin.services.xxl_job.take_over import HeldSchedule
from tickwheel_admin.store.xxl_job import their_schedule as statements

P = ParamSpec("P")
T = TypeVar("T")


class TheirDatabase:
    """Implements `TheirSchedule`."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    async def check(self) -> None:
        """Raise ScheduleLockMissing when XXL-JOB's lock cannot hold."""

        def check() -> None:
            with self._engine.connect() as conn:
                statements.check_engines(conn)

        await asyncio.to_thread(check)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[HeldSchedule]:
        """Hold the lock row; raises ScheduleLockMissing."""
        conn = await asyncio.to_thread(self._engine.connect)
        try:
            held = _Held(conn)
            await held.run(statements.lock_schedule)
            yield held
        finally:
            # Rolls back what is not committed. Also when this is cancelled: the lock is theirs.
            await asyncio.shield(asyncio.to_thread(conn.close))


class _Held:
    """A transaction in which the lock is held."""

    def __init__(self, conn: sa.Connection) -> None:
        self._conn = conn

    async def run(
        self, work: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await asyncio.to_thread(work, self._conn, *args, **kwargs)

    async def now(self) -> int:
        return await self.run(statements.their_now)

    async def jobs(self, job_ids: Collection[int]) -> dict[int, TheirState]:
        return await self.run(statements.lock_their_jobs, job_ids)

    async def stop(self, job_ids: Collection[int]) -> None:
        await self.run(statements.stop_their_jobs, job_ids)

    async def start(self, next_at: Mapping[int, int]) -> None:
        await self.run(statements.start_their_jobs, next_at)

    async def commit(self) -> None:
        await asyncio.to_thread(self._conn.commit)
