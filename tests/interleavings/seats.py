"""Seats at a database: an engine of the product with a gate before each statement and commit."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg
import pymysql
import sqlalchemy as sa
from sqlalchemy import event

from tests.interleavings.baton import Connection, Fault, current_actor
from tickwheel_admin.store.database.database import Database

P = ParamSpec("P")
T = TypeVar("T")

MAX_TEXT = 150  # characters of a statement that a history shows
MAX_VALUES = 120


class Seat:
    """One connection to one server; at most one actor uses it at a time."""

    def __init__(self, url: str, *, server: int) -> None:
        self.server = server
        self.ahead_ms = 0  # how much the clock of its server is ahead
        self.rewrites: list[Callable[[str], str]] = []
        self._writes = False  # the transaction under way does
        self.database = Database(url, threads=1)
        self.store = SeatStore(self.database)
        engine = self.database.engine
        event.listen(engine, "before_cursor_execute", self._before_statement, retval=True)
        event.listen(engine, "after_cursor_execute", self._after_statement)
        event.listen(engine, "handle_error", self._on_error)
        commit = engine.dialect.do_commit
        engine.dialect.do_commit = partial(self._commit, commit)  # type: ignore[method-assign]

    def close(self) -> None:
        self.database.close_sync()

    def _before_statement(
        self,
        conn: sa.Connection,
        cursor: Any,
        statement: str,
        parameters: Any,
        context: Any,
        executemany: bool,
    ) -> tuple[str, Any]:
        if self.ahead_ms:
            statement = _at_another_time(statement, self.ahead_ms)
        for rewrite in self.rewrites:
            statement = rewrite(statement)
        actor = current_actor()
        if actor is None:
            return statement, parameters
        self._writes = self._writes or not statement.startswith("SELECT")
        number = _number_of(conn.connection.driver_connection)
        told = f"{_short_sql(statement)} {_short_values(parameters)}"
        if actor.stop(told, Connection(self.server, number)) is Fault.ROLLED_BACK:
            actor.told("an error is put here, and all is rolled back")
            raise sa.exc.OperationalError(statement, None, self._error())
        return statement, parameters

    def _after_statement(
        self,
        conn: sa.Connection,
        cursor: Any,
        statement: str,
        parameters: Any,
        context: Any,
        executemany: bool,
    ) -> None:
        actor = current_actor()
        if actor is not None:
            actor.told(f"{cursor.rowcount} rows")

    def _on_error(self, context: sa.engine.ExceptionContext) -> None:
        actor = current_actor()
        if actor is not None:
            actor.told(" ".join(str(context.original_exception).split())[:MAX_TEXT])

    def _commit(self, commit: Callable[[Any], None], connection: Any) -> None:
        actor = current_actor()
        if actor is None:
            commit(connection)
            return
        number = _number_of(getattr(connection, "driver_connection", connection))
        fault = actor.stop("COMMIT", Connection(self.server, number), ends=self._writes)
        self._writes = False
        if fault is Fault.ROLLED_BACK:
            actor.told("an error is put here, and all is rolled back")
            raise self._error()
        actor.told("")
        commit(connection)
        if fault is Fault.ANSWER_LOST:
            actor.told("committed, but the answer is lost")
            raise self._error()

    def _error(self) -> Exception:
        if self.database.engine.dialect.name == "postgresql":
            return psycopg.errors.QueryCanceled("put here by the play")
        return pymysql.err.OperationalError(1205, "put here by the play")


class SeatStore:
    """The Store protocol over a seat: each transaction runs on the caller's own thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def run(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return self._database.run_sync(work, *args, **kwargs)

    async def read(
        self, work: Callable[Concatenate[sa.Connection, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return self._database.read_sync(work, *args, **kwargs)


class PausesAtGates:
    """Stands for the module `time` in `store.database`: a pause is a step like any other."""

    @staticmethod
    def sleep(seconds: float) -> None:
        actor = current_actor()
        assert actor is not None, f"a pause of {seconds} s outside of a play"
        actor.repeats += 1
        actor.stop("pauses, and will repeat its transaction", None)

    @staticmethod
    def monotonic() -> float:
        return 0.0  # how long a transaction takes is only counted


def _at_another_time(statement: str, ahead_ms: int) -> str:
    """The statement as a server with another clock would understand it (MariaDB)."""
    for clock in ("SYSDATE(3)", "NOW(3)"):
        now = f"CAST(UNIX_TIMESTAMP({clock}) * 1000 AS SIGNED)"
        statement = statement.replace(now, f"({now} + {ahead_ms})")
    return statement


def _number_of(driver_connection: Any) -> int:
    if isinstance(driver_connection, psycopg.Connection):
        return driver_connection.info.backend_pid
    return int(driver_connection.thread_id())


def _short_sql(statement: str) -> str:
    """A statement as a person would say it aloud, in one line."""
    text = " ".join(statement.replace('"', "").replace("`", "").split())
    if "database_now" in text and " FROM " not in text.replace("EXTRACT(EPOCH FROM", ""):
        return "reads the time"
    for pattern, shorter in _SHORTER:
        text = pattern.sub(shorter, text)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


_SHORTER = [
    (re.compile(pattern), shorter)
    for pattern, shorter in (
        (r"%\(\w+\)s(::\w+)?", "?"),
        (r"JSON_TABLE\(.*?\)\) AS b|json_to_recordset\(.*?\) AS b\(.*?\)", "rows"),
        (r"^SELECT (?!CAST|count).*? FROM ", "SELECT … FROM "),
        (r"^INSERT INTO (\w+) \(.*?\) .*?(FROM rows|VALUES|$)", r"INSERT INTO \1 (…) \2"),
        (r"\b(t|b|run|node|job|trigger|bucket|id_block|node_session|admin)\.", ""),
    )
]


def _short_values(parameters: Any) -> str:
    values = parameters.values() if isinstance(parameters, dict) else parameters or ()
    text = ", ".join(str(value) for value in values)
    return f"[{text if len(text) <= MAX_VALUES else text[: MAX_VALUES - 1] + '…'}]"
