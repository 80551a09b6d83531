"""Fixtures for all tests: a fresh database of each kind, and the marks that folders imply."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.compiled_statements import share_compiled_statements
from tests.support.databases import KeptDatabase, chosen_kinds, fresh_database, running
from tests.support.garbage import look_rarely
from tests.support.servers import DatabaseServer, MariaDB, PostgreSQL

_MARKED_FOLDERS = ("browser", "e2e")

share_compiled_statements()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for folder in _MARKED_FOLDERS:
            if folder in item.path.relative_to(Path(__file__).parent).parts:
                item.add_marker(folder)
    # Playwright keeps an event loop in the main thread from its first use on; no asyncio test can
    # run after it.
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Thousands of tests and all that they import stay to the end: a second each time to look at.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        look_rarely()


@sa.event.listens_for(sa.pool.Pool, "checkout")
def _skip_fsync(connection: object, *_: object) -> None:
    """No test of this process survives a power cut; admins of their own keep what they promise."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=OFF")


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[DatabaseServer]:
    with running(MariaDB) as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[DatabaseServer]:
    with running(PostgreSQL) as server:
        yield server


@pytest.fixture(scope="session")
def kept_mariadb(mariadb_server: DatabaseServer) -> Iterator[KeptDatabase]:
    with closing(KeptDatabase(mariadb_server)) as kept:
        yield kept


@pytest.fixture(scope="session")
def kept_postgresql(postgresql_server: DatabaseServer) -> Iterator[KeptDatabase]:
    with closing(KeptDatabase(postgresql_server)) as kept:
        yield kept


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """An empty SQLite database."""
    return f"sqlite:///{tmp_path / 'tickwheel.db'}"


@pytest.fixture
def mariadb_url(mariadb_server: DatabaseServer) -> Iterator[str]:
    """An empty MariaDB database."""
    with fresh_database(mariadb_server) as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server: DatabaseServer) -> Iterator[str]:
    """An empty PostgreSQL database."""
    with fresh_database(postgresql_server) as url:
        yield url


@pytest.fixture(params=chosen_kinds())
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty database; the test runs once on each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))
