"""The statements of one run on one connection, in a thread; it can be stopped from outside."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_executor.errors import Fail, Failed, Retry
from tickwheel_executor.run.context import Run

from .connections import SqlConnection
from .databases import (
    begin_session,
    begin_transaction,
    canceller,
    engine_of,
    instant,
    limit_rows,
    reason_of,
    sever,
)
from .statements import only_returns_rows, shown
from .values import column_names, csv_line, json_value

ONE, EACH, NONE = "one", "each", "none"
IN_RESULT, IN_LOG, NOWHERE = "result", "log", "nowhere"
_MAX_RESULT_BYTES = 56 * 1024  # of all rows; a result has 64 KiB at most


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlPlan:
    """What to do, checked."""

    statements: tuple[str, ...]
    values: Mapping[str, Any]
    transaction: str  # ONE, EACH or NONE
    max_rows: int
    rows: str  # where they go: IN_RESULT, IN_LOG or NOWHERE
    timeout_seconds: float  # of each statement


class StoppedError(Exception):
    """The session was told to stop."""


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
    _left: int = _MAX_RESULT_BYTES

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
        is_read = only_returns_rows(statement)
        limit_rows(conn, self.plan.max_rows + 1 if is_read else None)
        # A cursor on the server needs a transaction.
        streams = is_read and self.plan.transaction != NONE and conn.dialect.name == "postgresql"
        begun = time.monotonic()
        self.begun_at = begun
        try:
            result = conn.execute(
                clause, values, execution_options={"stream_results": streams, "max_row_buffer": 100}
            )
            with result:
                told = self._read(result) if result.returns_rows else self._count(result)
        finally:
            self.begun_at = None
        run.log.info("%d: %s after %.3f s", self.number, told, time.monotonic() - begun)

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
        return {
            "run_id": run.id,
            "attempt": run.attempt,
            "scheduled_at": instant(conn, run.scheduled_at),
            "due_at": instant(conn, run.due_at),
            "shard_index": run.shard_index,
            "shard_total": run.shard_total,
        }

    def _count(self, result: sa.CursorResult[Any]) -> str:
        affected = max(result.rowcount, 0)
        self._result["affected"] += affected
        self._result["statements"].append({"affected": affected})
        return f"{affected:,} rows affected"

    def _read(self, result: sa.CursorResult[Any]) -> str:
        names = column_names(result.keys())
        kept: list[dict[str, Any]] = []
        count, is_cut = 0, False
        if self.plan.rows == IN_LOG:
            self.of_run.log.info("%s", csv_line(names))
        for row in result:
            if count == self.plan.max_rows:
                is_cut = True
                break
            count += 1
            if self.plan.rows == IN_LOG:
                self.of_run.log.info("%s", csv_line(row))
            elif self.plan.rows == IN_RESULT and not self._result.get("is_cut"):
                self._keep(kept, dict(zip(names, map(json_value, row), strict=True)))
        entry: dict[str, Any] = {"rows": count}
        if is_cut:
            entry["is_cut"] = True
        self._result["statements"].append(entry)
        if self.plan.rows == IN_RESULT:
            self._result["rows"] = kept
        more = "; there are more" if is_cut else ""
        return f"{count:,} rows{more}"

    def _keep(self, kept: list[dict[str, Any]], row: dict[str, Any]) -> None:
        size = len(msgspec.json.encode(row)) + 1
        if size > self._left:
            self._result["is_cut"] = True
            self.of_run.log.warning("the result has room for %d of the rows", len(kept))
            return
        self._left -= size
        kept.append(row)

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
