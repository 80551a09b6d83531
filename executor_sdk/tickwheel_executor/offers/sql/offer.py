"""The offer `sql`, with the connections that the owner of a machine lists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tickwheel_executor.errors import ConfigurationError, Fail, Failed
from tickwheel_executor.offers import HandlerRegistry
from tickwheel_executor.offers.config import ConfigTable
from tickwheel_executor.offers.examples import with_examples
from tickwheel_executor.offers.threads import in_thread
from tickwheel_executor.run.context import Run

from . import parameters as p
from .connections import SqlConnection, connection_of, problem_of
from .placeholders import check_placeholders
from .statements import check_statement, check_writes_no_file

if TYPE_CHECKING:
    from .session import SqlPlan, SqlSession

_STOP_SECONDS = 8.0  # until a server that does not react to a cancel is cut off
_CANCEL_EVERY_SECONDS = 0.5  # a cancel may come between two statements
_NO_STATEMENTS: list[str] = []
_NO_VALUES: dict[str, p.Scalar | list[p.Scalar]] = {}


class Sql:
    """Offers the handler `sql`.

    Args:
        connections: By the names that jobs use.

    Raises:
        ConfigurationError: a connection cannot be used, or a library is missing.
    """

    def __init__(self, connections: Mapping[str, SqlConnection]) -> None:
        problems = [
            f"connection {name!r}: {problem[0]}: {problem[1]}"
            for name, each in connections.items()
            if (problem := problem_of(each)) is not None
        ]
        if problems:
            raise ConfigurationError(problems)
        self._connections = dict(connections)

    @classmethod
    def from_config(cls, table: Mapping[str, Any], problems: list[str]) -> Sql | None:
        """From the section [sql] of an agent's file; None if it has problems."""
        config = ConfigTable("sql", table, problems)
        connections = {
            name: connection_of(each) for name, each in config.tables("connections").items()
        }
        if not connections:
            config.problem("connections", "there is none; write a table [sql.connections.NAME]")
        if not config.finish():
            return None
        return cls({name: each for name, each in connections.items() if each is not None})

    def register(self, executor: HandlerRegistry) -> None:
        """Register the handler."""
        executor.handler("sql")(with_examples(self._sql, connection=self._connections))

    async def _sql(
        self,
        run: Run,
        *,
        connection: p.Connection,
        statement: p.Statement = "",
        statements: p.Statements = _NO_STATEMENTS,
        values: p.Values = _NO_VALUES,
        transaction: p.Transaction = "one",
        max_rows: p.MaxRows = 100,
        rows: p.Rows = "result",
        fail_if: p.FailIf = "never",
        timeout_seconds: p.TimeoutSeconds = 60.0,
    ) -> dict[str, Any]:
        """Execute SQL statements on a database that the machine knows by name."""
        from .session import SqlPlan, SqlSession  # here, because it needs SQLAlchemy

        known = self._connections.get(connection)
        if known is None:
            names = ", ".join(sorted(self._connections))
            raise Fail(f"connection: this machine has no {connection!r}; it has: {names}")
        if bool(statement.strip()) == bool(statements):
            raise Fail("give either statement or statements")
        texts = tuple(statements) or (statement,)
        for number, text in enumerate(texts, start=1):
            check_statement(number, text, known.allowed_words, connection)
            if known.is_mysql:
                check_placeholders(number, text)
                if known.read_only:
                    check_writes_no_file(number, text)
        if timeout_seconds > known.max_statement_seconds:
            raise Fail(
                f"timeout_seconds: the connection {connection!r} allows at most "
                f"{known.max_statement_seconds:g}"
            )
        plan = SqlPlan(
            statements=texts,
            values=values,
            # What reads needs no autocommit, and only a transaction is surely read-only.
            transaction="each" if transaction == "none" and known.read_only else transaction,
            max_rows=min(max_rows, known.max_rows),
            rows=rows,
            timeout_seconds=timeout_seconds,
        )
        result = await _until_done(SqlSession(known, plan, run), plan)
        _check_rows(result, fail_if)
        return result


async def _until_done(session: SqlSession, plan: SqlPlan) -> dict[str, Any]:
    """Run the session in a thread of its own; end it on the server if it has to end.

    Raises:
        Failed: a statement took too long.
        asyncio.CancelledError: the run was cancelled.
    """
    future = in_thread(session.run, name=f"tickwheel sql {session.of_run.id}")
    late = 0
    try:
        while not future.done() and not late:
            begun = session.begun_at
            wait = plan.timeout_seconds
            if begun is not None:
                wait += begun - time.monotonic()
                if wait <= 0:
                    late = session.number
                    break
            await asyncio.wait((future,), timeout=wait)
    except asyncio.CancelledError:
        if await _stop(session, future):
            session.of_run.log.info("the statement was ended on the server")
        raise
    if not late:
        return future.result()
    await _stop(session, future)
    if future.done() and future.exception() is None:
        return future.result()  # it ended just in time
    raise Failed(
        f"statement {late} did not end within {plan.timeout_seconds:g} s and was cancelled"
    )


async def _stop(session: SqlSession, future: asyncio.Future[dict[str, Any]]) -> bool:
    """Cancel until the thread has ended; returns whether the server has reacted."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _STOP_SECONDS
    try:
        while not future.done() and loop.time() < end:
            in_thread(session.stop, name="tickwheel sql cancel")
            await asyncio.wait((future,), timeout=_CANCEL_EVERY_SECONDS)
        return future.done()
    finally:
        if future.done():
            future.exception()  # known: it was stopped
        else:
            future.add_done_callback(lambda ended: ended.exception())
            session.give_up()
            session.of_run.log.warning(
                "the database does not react to the cancel; the connection was broken, and the "
                "statement may still be running there"
            )


def _check_rows(result: Mapping[str, Any], fail_if: str) -> None:
    counts = [each["rows"] for each in result["statements"] if "rows" in each]
    if fail_if == "never":
        return
    if not counts:
        raise Fail("fail_if: no statement returned rows")
    if fail_if == "rows" and counts[-1]:
        raise Failed(f"the statement returned {counts[-1]:,} rows; none were expected")
    if fail_if == "no_rows" and not counts[-1]:
        raise Failed("the statement returned no rows")
