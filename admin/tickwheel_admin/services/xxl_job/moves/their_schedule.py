"""XXL-JOB's database as the take-over needs it, over a real connection in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import sqlalchemy as sa

from tickwheel_admin.domain.xxl_job.take_over import TheirState
from tickwheel_admin.services.xxl_job.moves.schedule import HeldSchedule
from tickwheel_admin.store.xxl_job import their_schedule as statements
from tickwheel_admin.store.xxl_job.source.connection import explain, parsed_url

P = ParamSpec("P")
T = TypeVar("T")


CONNECT_SECONDS = 5
STATEMENT_SECONDS = 20  # a statement that waits for XXL-JOB's lock, at most
LOCK_WAIT_SECONDS = 10


class TheirDatabase:
    """Implements `TheirSchedule`; errors of the database are SourceErrors, which say what to do."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._place = engine.url.render_as_string(hide_password=True)

    async def check(self) -> None:
        """Look, without waiting, whether XXL-JOB's lock can hold.

        Raises:
            ScheduleLockMissing: it cannot.
        """

        def check() -> None:
            with self._engine.connect() as conn:
                statements.check_engines(conn)

        await self._in_thread(check)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[HeldSchedule]:
        """Hold the lock row; raises ScheduleLockMissing."""
        conn = await self._in_thread(self._engine.connect)
        try:
            held = _Held(conn, self._in_thread)
            await held.run(statements.lock_schedule)
            yield held
        finally:
            # Rolls back what is not committed; also when this is cancelled, for the lock is theirs.
            await asyncio.shield(asyncio.to_thread(_closed, conn))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except sa.exc.DBAPIError as error:
            raise explain(error, self._place) from None


@contextmanager
def open_their_database(url: str) -> Iterator[TheirDatabase]:
    """XXL-JOB's database, to be changed.

    Args:
        url: as `open_source` takes it; its user needs UPDATE on xxl_job_info and xxl_job_lock.

    Raises:
        SourceError: this is no URL of one.
    """
    engine = sa.create_engine(
        parsed_url(url),
        poolclass=sa.NullPool,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        connect_args={
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": STATEMENT_SECONDS,
            "write_timeout": STATEMENT_SECONDS,
            "init_command": f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}",
        },
    )
    try:
        yield TheirDatabase(engine)
    finally:
        engine.dispose()


class _Held:
    """A transaction in which the lock is held."""

    def __init__(
        self, conn: sa.Connection, in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    ) -> None:
        self._conn = conn
        self._in_thread = in_thread

    async def run(
        self, work: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        done = await self._in_thread(lambda: work(self._conn, *args, **kwargs))
        return cast("T", done)

    async def now(self) -> int:
        return await self.run(statements.their_now)

    async def jobs(self, job_ids: Collection[int]) -> dict[int, TheirState]:
        return await self.run(statements.lock_their_jobs, job_ids)

    async def stop(self, job_ids: Collection[int]) -> None:
        await self.run(statements.stop_their_jobs, job_ids)

    async def start(self, next_at: Mapping[int, int]) -> None:
        await self.run(statements.start_their_jobs, next_at)

    async def commit(self) -> None:
        await self.run(sa.Connection.commit)


def _closed(conn: sa.Connection) -> None:
    try:
        conn.close()
    except sa.exc.DBAPIError:
        conn.invalidate()  # the server has rolled back already, or will
