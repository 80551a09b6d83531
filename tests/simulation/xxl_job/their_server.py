"""XXL-JOB's database: a real MariaDB, whose locks are waited for in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool

from tests.simulation.scheduler import Process, SimLoop
from tests.simulation.xxl_job.books import Books
from tickwheel_admin.domain.xxl_job.take_over import TheirState
from tickwheel_admin.services.xxl_job.moves.schedule import HeldSchedule
from tickwheel_admin.store.xxl_job import their_schedule as statements

T = TypeVar("T")

LOCK_WAIT_TIMEOUT = 1205
GIVES_UP_AFTER = 10.0  # virtual seconds, as innodb_lock_wait_timeout


class ConnectionLostError(Exception):
    """The server, the network or an administrator ended the connection."""


@dataclass(slots=True)
class TheirFaults:
    """How often each step over a connection fails; nothing by default."""

    lost: float = 0.0  # the connection ends; of a commit nobody knows whether it was done
    seen: Counter[str] = field(default_factory=Counter)


class TheirServer:
    """One MariaDB database, used by one simulation after the other."""

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url, poolclass=QueuePool, pool_size=20, max_overflow=20)

        self.sessions: list[Session] = []

        @sa.event.listens_for(self.engine, "connect")
        def never_wait(connection: Any, _record: object) -> None:
            # There is one thread: whoever finds a lock taken comes again in virtual time.
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 0")

    def begin(self) -> None:
        """Remove what the simulation before has left: jobs, and connections of the dead."""
        for session in self.sessions:
            session.close()
        self.sessions.clear()
        with self.engine.begin() as conn:
            conn.exec_driver_sql("DELETE FROM xxl_job_info")

    def close(self) -> None:
        """End all connections."""
        for session in self.sessions:
            session.close()
        self.engine.dispose()

    def rows(self, statement: str) -> list[Any]:
        """What is committed."""
        with self.engine.connect() as conn:
            return list(conn.exec_driver_sql(statement))

    def change(self, statement: str, *parameters: Any) -> None:
        with self.engine.begin() as conn:
            conn.exec_driver_sql(statement, parameters)


@dataclass(slots=True)
class Fuse:
    """Kills or freezes a process before or after one of its steps over connections."""

    end: Callable[[], None]
    steps: int | None = None  # how many it still takes before that; None: it does not happen

    def burns(self) -> bool:
        """Take a step; whether it was the last one for now."""
        if self.steps is None:
            return False
        self.steps -= 1
        if self.steps > 0:
            return False
        self.steps = None
        self.end()
        return True


class Session:
    """A connection of one process, with one transaction at a time."""

    def __init__(
        self,
        server: TheirServer,
        loop: SimLoop,
        process: Process,
        random: Random,
        faults: TheirFaults,
        *,
        fuse: Fuse | None = None,
    ) -> None:
        self._conn: sa.Connection | None = server.engine.connect()
        self._loop = loop
        self._random = random
        self._faults = faults
        self._process = process
        self._fuse = fuse
        server.sessions.append(self)

    async def do(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """A statement, or some of them; waits for locks."""
        until = self._loop.now + GIVES_UP_AFTER
        await self._burn()
        await self._travel()
        while True:
            conn = self._open()
            try:
                answer = work(conn, *args, **kwargs)
            except sa.exc.OperationalError as error:
                # Only the statement is rolled back, and what it locked before stays.
                if error.orig is None or error.orig.args[0] != LOCK_WAIT_TIMEOUT:
                    raise
                if self._loop.now > until:
                    raise
                await asyncio.sleep(self._random.uniform(0.002, 0.02))
                continue
            if self._random.random() < self._faults.lost:
                self._lose("lost in the middle")
            await self._burn()
            await self._travel()
            return answer

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> list[Any]:
        def work(conn: sa.Connection) -> list[Any]:
            result = conn.exec_driver_sql(statement, dict(parameters or {}))
            return list(result) if result.returns_rows else [result.rowcount]

        return await self.do(work)

    async def commit(self, committed: Callable[[], None] = lambda: None) -> None:
        """`committed` is told the truth, also when the caller is not."""
        await self._burn()
        await self._travel()
        fails = self._random.random() < self._faults.lost * 2
        if fails and self._random.random() < 0.5:
            self._lose("lost before the commit")
        self._open().commit()
        committed()
        await self._burn()
        if fails:
            self._lose("lost after the commit")
        await self._travel()

    async def rollback(self) -> None:
        self._open().rollback()

    def close(self) -> None:
        """The server rolls back what was not committed."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def _open(self) -> sa.Connection:
        if self._conn is None:
            raise ConnectionLostError
        return self._conn

    def _lose(self, how: str) -> None:
        self._faults.seen[f"{self._process.name.split('.')[0]}: {how}"] += 1
        self.close()
        raise ConnectionLostError(how)

    async def _burn(self) -> None:
        if self._fuse is not None and self._fuse.burns():
            await asyncio.sleep(0)  # the dead and the frozen get no further

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.uniform(0.0002, 0.004))


class SimTheirSchedule:
    """Implements `TheirSchedule` of the services over a session."""

    def __init__(
        self, open_session: Callable[[], Session], now: Callable[[], int], books: Books
    ) -> None:
        self._open_session = open_session
        self._now = now
        self._books = books
        self._began = now()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[HeldSchedule]:
        session = self._open_session()
        try:
            await session.do(statements.lock_schedule)
            yield _Held(session, self._now, self._books, self._began)
        finally:
            session.close()


class _Held:
    def __init__(self, session: Session, now: Callable[[], int], books: Books, began: int) -> None:
        self._session = session
        self._now = now
        self._books = books
        self._began = began
        self._states: dict[int, TheirState] = {}
        self._stopped: Collection[int] = ()

    async def now(self) -> int:
        return self._now()

    async def jobs(self, job_ids: Collection[int]) -> dict[int, TheirState]:
        self._states = await self._session.do(statements.lock_their_jobs, job_ids)
        return self._states

    async def stop(self, job_ids: Collection[int]) -> None:
        self._stopped = job_ids
        await self._session.do(statements.stop_their_jobs, job_ids)

    async def start(self, next_at: Mapping[int, int]) -> None:
        await self._session.do(statements.start_their_jobs, next_at)

    async def commit(self) -> None:
        def committed() -> None:
            for each in self._stopped:
                waited_ms = self._now() - self._began
                self._books.waited_ms[each, self._states[each].next_at] = waited_ms

        await self._session.commit(committed)


def close_after(loop: SimLoop, session: Session, seconds: float) -> None:
    """The server notices after a while that its client is gone."""
    with contextlib.suppress(Exception):
        loop.world_later(seconds, session.close)
