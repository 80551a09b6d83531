"""The statements of one run on one connection, in a thread; it can be stopped from outside."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tickwheel_executor.errors import Fail, Failed, Retry
from tickwheel_executor.offers.threads import StoppedError
from tickwheel_executor.run.context import Run

from .connections import SqlConnection
from .databases import (
    begin_session,
    begin_transaction,
    canceller,
    engine_of,
    has_no_cursor,
    instant,
    limit_rows,
    reason_of,
    set_autocommit,
    sever,
)
from .reading import prove_read_only
from .rows import IN_RESULT, RowReader
from .statements import may_be_limited, may_have_cursor, only_returns_rows, shown

ONE, EACH, NONE = "one", "each", "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlPlan:
    """What to do, checked."""

    statements: tuple[str, ...]
    values: Mapping[str, Any]
    transaction: str  # ONE, EACH or NONE
    max_rows: int
    rows: str  # where they go: IN_RESULT, IN_LOG or NOWHERE
    timeout_seconds: float  # of each statement


@dataclass(slots=True)
class SqlSession:
    """Runs a plan; `run` in one thread, everything else from others."""

    connection: SqlConnection
    plan: SqlPlan
    of_run: Run
    number: int = 0  # of the statement that is being executed, from 1
    begun_at: float | None = None  # monotonic seconds, when it began; None: none is
    _stopped: threading.Event = field(default_factory=threading.Event)
    _conn: sa.Connection | None = None
    _cancel: Any = None
    _result: dict[str, Any] = field(default_factory=dict)
    _rows: RowReader = field(init=False)

    def __post_init__(self) -> None:
        self._rows = RowReader(of_run=self.of_run, max_rows=self.plan.max_rows, to=self.plan.rows)

    def stop(self) -> None:
        """End the running statement on the server, and begin no other; may be called again."""
        self._stopped.set()
        if self._cancel is not None:
            self._cancel()

    def give_up(self) -> None:
        """The server does not react: break the connection."""
        if self._conn is not None:
            sever(self._conn)

    def run(self) -> dict[str, Any]:
        """Execute all statements.

        Raises:
            StoppedError: it was told to stop.
            Retry: a deadlock or the like.
            Fail, Failed: a statement cannot be executed.
        """
        self._result = {"affected": 0, "statements": []}
        try:
            engine = engine_of(self.connection)
            with engine.connect() as conn:
                self._conn = conn
                self._cancel = canceller(engine, conn)
                begin_session(
                    conn,
                    read_only=self.connection.read_only,
                    timeout_seconds=self.plan.timeout_seconds,
                    autocommit=self.plan.transaction == NONE,
                )
                self._execute_all(conn)
        except sa.exc.DBAPIError as error:
            self._raise_if_stopped()
            self._fail(error)
        except (sa.exc.StatementError, sa.exc.CompileError, ValueError, OverflowError) as error:
            self._raise_if_stopped()
            cause = getattr(error, "orig", None) or error
            raise Fail(f"{self._where()}{type(cause).__name__}: {cause}") from None
        finally:
            self._conn = self._cancel = None
        return self._result

    def _execute_all(self, conn: sa.Connection) -> None:
        is_one = self.plan.transaction == ONE
        with conn.begin() if is_one else nullcontext():
            if is_one:
                begin_transaction(conn, read_only=self.connection.read_only)
            for number, statement in enumerate(self.plan.statements, start=1):
                self._raise_if_stopped()
                self.number = number
                if is_one:
                    self._execute(conn, statement)
                    continue
                if self.plan.transaction == NONE and conn.dialect.name == "postgresql":
                    # A cursor needs a transaction, and what cannot be in one has none.
                    set_autocommit(conn, on=not may_have_cursor(statement))
                with conn.begin():
                    if self.plan.transaction == EACH:
                        begin_transaction(conn, read_only=self.connection.read_only)
                    self._execute(conn, statement)
            self.number = 0
            self._raise_if_stopped()

    def _execute(self, conn: sa.Connection, statement: str) -> None:
        run, total = self.of_run, len(self.plan.statements)
        run.progress((self.number - 1) / total, f"statement {self.number} of {total}")
        run.log.info("%d: %s", self.number, shown(statement))
        clause, values = self._bound(conn, statement)
        limit_rows(conn, self.plan.max_rows + 1 if may_be_limited(statement) else None)
        begun = time.monotonic()
        self.begun_at = begun
        try:
            if self.connection.read_only:
                prove_read_only(conn)
            with self._sent(conn, statement, clause, values) as result:
                told = self._read(result, statement) if result.returns_rows else self._count(result)
        finally:
            self.begun_at = None
        run.log.info("%d: %s after %.3f s", self.number, told, time.monotonic() - begun)

    def _sent(
        self, conn: sa.Connection, statement: str, clause: sa.TextClause, values: dict[str, Any]
    ) -> sa.CursorResult[Any]:
        """The result, whose rows the driver does not read before they are asked for."""
        streams = {"stream_results": True, "max_row_buffer": 1}
        if conn.dialect.name != "postgresql":
            return conn.execute(clause, values, execution_options=streams)
        if not may_have_cursor(statement):
            return conn.execute(clause, values)
        if only_returns_rows(statement):
            return conn.execute(clause, values, execution_options=streams)
        try:
            with conn.begin_nested():
                return conn.execute(clause, values, execution_options=streams)
        except sa.exc.DBAPIError as error:
            if not has_no_cursor(error):
                raise
        return conn.execute(clause, values)  # it was not executed: it has no cursor

    def _bound(self, conn: sa.Connection, statement: str) -> tuple[sa.TextClause, dict[str, Any]]:
        clause = sa.text(statement)
        names = set(clause.compile(dialect=conn.dialect).params)
        known = {**self._of_run(conn), **self.plan.values}
        if missing := sorted(names - known.keys()):
            raise Fail(
                f"{self._where()}it uses :{missing[0]}, and `values` has no {missing[0]}; a colon "
                "that begins no parameter is written \\:"
            )
        values = {name: known[name] for name in names}
        for name, value in values.items():
            if isinstance(value, list):
                clause = clause.bindparams(sa.bindparam(name, expanding=True))
        return clause, values

    def _of_run(self, conn: sa.Connection) -> dict[str, Any]:
        run = self.of_run
        start, end = run.interval_start, run.interval_end
        return {
            "run_id": run.id,
            "attempt": run.attempt,
            "scheduled_at": instant(conn, run.scheduled_at),
            "due_at": instant(conn, run.due_at),
            "interval_start": None if start is None else instant(conn, start),
            "interval_end": None if end is None else instant(conn, end),
            "shard_index": run.shard_index,
            "shard_total": run.shard_total,
        }

    def _count(self, result: sa.CursorResult[Any]) -> str:
        affected = max(result.rowcount, 0)
        self._result["affected"] += affected
        self._result["statements"].append({"affected": affected})
        return f"{affected:,} rows affected"

    def _read(self, result: sa.CursorResult[Any], statement: str) -> str:
        entry = self._rows.read(result, to_end=not only_returns_rows(statement))
        self._result["statements"].append(entry)
        if self.plan.rows == IN_RESULT:
            self._result["rows"] = self._rows.kept
            self._result.pop("is_cut", None)
            if self._rows.is_result_full:
                self._result["is_cut"] = True
        return f"{entry['rows']:,} rows{'; there are more' if 'is_cut' in entry else ''}"

    def _where(self) -> str:
        return f"statement {self.number}: " if self.number else ""

    def _raise_if_stopped(self) -> None:
        if self._stopped.is_set():
            raise StoppedError

    def _fail(self, error: sa.exc.DBAPIError) -> None:
        statement = self.plan.statements[self.number - 1] if self.number else ""
        reason, may_help = reason_of(error, statement)
        message = f"{self._where()}{reason}"
        raise (Retry if may_help else Failed)(message) from None
