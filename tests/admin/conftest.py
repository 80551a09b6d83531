"""Databases for tests: SQLite where no statement is in question, else one of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import create_schema
from tests.support.databases import chosen_kinds, fresh_database
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import metadata


@pytest.fixture(scope="module", params=chosen_kinds())
def shared_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """One of each kind that all tests of a module share: a fresh one costs half a second.

    It has every table; each test takes an executor of its own there.
    """
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("shared") / "tickwheel.db"
        yield from _opened(f"sqlite:///{path}")
        return
    with fresh_database(request.getfixturevalue(f"{request.param}_server")) as url:
        yield from _opened(url)


def _opened(url: str) -> Iterator[Database]:
    database = Database(url)
    database.run_sync(metadata.create_all)
    yield database
    database.close_sync()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """SQLite."""
    database = Database(f"sqlite:///{tmp_path / 'tickwheel.db'}")
    await create_schema(database)
    yield database
    await database.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def turned_database(tmp_path: Path, clock: Clock) -> AsyncIterator[Database]:
    """SQLite with a clock to turn."""
    database = Database(f"sqlite:///{tmp_path / 'turned.db'}", clock=clock)
    await create_schema(database)
    yield database
    await database.close()


@pytest.fixture
def admin(database: Database) -> Admin:
    """An admin that has not entered the cluster's books."""
    return Admin(database)
