"""Transactions: bounded thread pools, limits on every connection, whole repeats on errors.

PyMySQL blocks and the event loop must not, so store functions run in threads. Any transient error
rolls back and repeats the whole transaction from its reads; every write is a compare-and-set or
has a unique key, so a commit whose answer never came is repeated just the same.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa
import structlog

from tickwheel_admin.store.database.connections import create_engine, is_transient
from tickwheel_admin.store.database.event_interest import (
    OPTION,
    EventInterest,
    left_events_out,
)
from tickwheel_admin.store.database.facts import (
    RepeatCause,
    TransactionFacts,
    TransactionMeter,
    collect_facts,
    forget_facts,
)

log = structlog.get_logger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

REPEATS = 6  # tries of a transaction in all
FIRST_PAUSE_SECONDS = 0.01
MAX_PAUSE_SECONDS = 0.5


class Repeat(Exception):
    """Raised by a store function whose compare-and-set missed: the transaction is repeated."""


class DatabaseUnavailable(Exception):
    """The database did not take the transaction, however often it was repeated."""


class StatementRefused(Exception):
    """The database refuses a statement, now and every time: one of its rows is at fault."""


class Store(Protocol):
    """What the engine and the services need of a database; the simulator has its own."""

    async def run(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do `work` in a transaction that writes.

        Raises:
            DatabaseUnavailable: nothing is known to have been written.
            Refused: nothing was written, and trying again would not help.
            sqlalchemy.exc.IntegrityError: a unique key stands against it, also when repeated.
        """
        ...

    async def read(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do `work` in a transaction that only reads; raises like `run`."""
        ...


class Database:
    """The production store: a connection pool and as many threads.

    People's requests may have threads of their own, so that however many of them read at once, and
    however long, the engine never waits for a thread or a connection.
    """

    def __init__(
        self,
        url: str,
        *,
        threads: int = 8,
        for_people: int = 0,
        clock: Callable[[], int] | None = None,
        meter: TransactionMeter | None = None,
        interest: EventInterest | None = None,
    ) -> None:
        """Connect lazily.

        Args:
            url: SQLAlchemy URL of SQLite, MySQL/MariaDB (PyMySQL) or PostgreSQL (psycopg).
            threads: transactions at once.
            for_people: transactions at once through `for_people`, beside those; 0: it is this
                database itself.
            clock: UTC epoch milliseconds, for SQLite only; servers have their own.
            meter: counts transactions and what they did; None: nobody counts.
            interest: whether events of runs are wanted; None: until it is learned, they are.
        """
        self._meter = meter
        self.engine = create_engine(url, connections=threads + for_people, clock=clock)
        self.engine.update_execution_options(**{OPTION: interest or EventInterest()})
        self._reading = self.engine
        if self.engine.dialect.name == "postgresql":
            # Each statement sees what is committed in any case, so a transaction would be nothing
            # but two more round trips.
            self._reading = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="database")
        self._lane = _Lane(self, for_people) if for_people else None
        # SQLite has one writer: queueing here is fair, waiting in its busy handler is not.
        self._writer = threading.Lock() if self.engine.dialect.name == "sqlite" else nullcontext()

    async def run(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self.run_sync(work, *args, **kwargs)
        )

    async def read(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self.read_sync(work, *args, **kwargs)
        )

    def run_sync(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`run` for the command line and for threads."""

        meter = self._meter
        facts: TransactionFacts | None = None

        def transact() -> T:
            nonlocal facts
            with self._writer, self.engine.begin() as conn:
                facts = None if meter is None else collect_facts(conn)
                result = work(conn, *args, **kwargs)
                forget_facts(conn)
                if left_events_out(conn):
                    raise Repeat("somebody wants events by now")
                return result

        result = _repeated(transact, name=_name_of(work), meter=meter, writes=True)
        if meter is not None and facts is not None:
            meter.committed(facts)  # after the commit, and after the lock of SQLite's one writer
        return result

    def read_sync(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`read` for the command line and for threads."""

        def transact() -> T:
            with self._reading.connect().execution_options(tickwheel_read_only=True) as conn:
                return work(conn, *args, **kwargs)

        return _repeated(transact, name=_name_of(work), meter=self._meter, writes=False)

    @property
    def for_people(self) -> Store:
        """The same database with threads of its own: for requests, which may come in any number."""
        return self if self._lane is None else self._lane

    async def close(self) -> None:
        """Wait for running transactions and close every connection."""
        await asyncio.to_thread(self.close_sync)

    def close_sync(self) -> None:
        """`close` for the command line."""
        if self._lane is not None:
            self._lane.threads.shutdown()
        self._threads.shutdown()
        self.engine.dispose()


class _Lane:
    """A database through other threads."""

    def __init__(self, database: Database, threads: int) -> None:
        self._database = database
        self.threads = ThreadPoolExecutor(threads, thread_name_prefix="people")

    async def run(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self.threads, lambda: self._database.run_sync(work, *args, **kwargs)
        )

    async def read(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return await asyncio.get_running_loop().run_in_executor(
            self.threads, lambda: self._database.read_sync(work, *args, **kwargs)
        )


def _repeated(
    transact: Callable[[], T], *, name: str, meter: TransactionMeter | None, writes: bool
) -> T:
    began_at = time.monotonic()
    repeats: list[RepeatCause] = []
    failed = True
    try:
        result = _until_it_succeeds(transact, repeats, name=name)
        failed = False
        return result
    finally:
        if meter is not None:
            seconds = time.monotonic() - began_at
            meter.measured(writes=writes, seconds=seconds, repeats=repeats, failed=failed)


def _until_it_succeeds(transact: Callable[[], T], repeats: list[RepeatCause], *, name: str) -> T:
    pause = FIRST_PAUSE_SECONDS
    met_a_key = False
    for attempt in range(1, REPEATS + 1):
        try:
            return transact()
        except Repeat as error:
            failure: Exception = error
            cause = RepeatCause.CONFLICT
        except sa.exc.IntegrityError as error:
            # Lost a race for a unique key: the next reads see the winner. Met again, it is real.
            if met_a_key:
                raise
            met_a_key = True
            failure = error
            cause = RepeatCause.UNIQUE_KEY
        except sa.exc.DBAPIError as error:
            if not is_transient(error):
                raise StatementRefused(f"{name}: {_short(error)}") from error
            failure = error
            cause = RepeatCause.DATABASE
        if attempt < REPEATS:
            repeats.append(cause)
            # Jitter parts two admins that ran into each other; nothing is decided by it.
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 3, MAX_PAUSE_SECONDS)
    told = _short(failure)
    log.warning("database.unavailable", transaction=name, cause=told)
    raise DatabaseUnavailable(f"{name}: {told}") from failure


def _name_of(work: Callable[..., object]) -> str:
    return getattr(work, "__name__", "transaction")


def _short(error: Exception) -> str:
    """The driver's own words, without the statement: it may hold people's data."""
    original: Any = getattr(error, "orig", None) or error
    return f"{type(original).__name__}: {original}".splitlines()[0][:300]
