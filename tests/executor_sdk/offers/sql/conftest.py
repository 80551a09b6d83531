"""A database of each kind, and the handler with connections to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.executor_sdk.offers.registry import handler_of
from tests.support.databases import KINDS, chosen_kinds, fresh_database
from tests.support.servers import MariaDB, PostgreSQL
from tickwheel_executor.offers.sql import Sql, SqlConnection
from tickwheel_executor.testing import HandlerEnd, run_handler

Call = Callable[..., Awaitable[HandlerEnd]]


@dataclass(slots=True)
class Target:
    """One database, seen from outside the handler."""

    kind: str
    url: str
    server: MariaDB | PostgreSQL | None = None
    engine: sa.Engine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = sa.create_engine(self.url, poolclass=sa.NullPool)

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        with self.engine.begin() as conn:
            for statement in statements:
                result = conn.exec_driver_sql(statement)
            return [tuple(row) for row in result] if result.returns_rows else []

    def sleepers(self) -> int:
        """How many sessions of the server are in a statement that sleeps."""
        assert self.server is not None
        if self.kind == "postgresql":  # the query may be the FETCH of a cursor
            query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        else:
            query = (
                "SELECT count(*) FROM information_schema.processlist"
                " WHERE info LIKE '%SLEEP(600)%' AND id <> CONNECTION_ID()"
            )
        [(count,)] = self.server.execute(query)
        assert isinstance(count, int)
        return count


@pytest.fixture(scope="module", params=KINDS)
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """One database of each kind for all tests of a module."""
    kind = request.param
    if kind not in chosen_kinds():
        pytest.skip(f"{kind} is not chosen")
    if kind == "sqlite":
        path: Path = tmp_path_factory.mktemp("sql") / "crm.db"
        sqlite3.connect(path).close()
        yield Target(kind, f"sqlite:///{path}")
        return
    server = request.getfixturevalue(f"{kind}_server")
    with fresh_database(server) as url:
        yield Target(kind, url, server)


@pytest.fixture
def orders(target: Target) -> Target:
    """The database with a table `orders` of three rows."""
    target.execute(
        "DROP TABLE IF EXISTS orders",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, name VARCHAR(100) UNIQUE)",
        "INSERT INTO orders VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    )
    return target


@pytest.fixture
def call(target: Target) -> Call:
    """Runs `sql` with these parameters; further fields describe the connection."""

    async def run(parameters: dict[str, Any], **connection: Any) -> HandlerEnd:
        offer = Sql({"crm": SqlConnection(url=target.url, **connection)})
        return await run_handler(
            handler_of(offer, "sql"),
            "sql",
            parameters={"connection": "crm", **parameters},
        )

    return run
