"""What most tests of the admin stand on: a database with every table, and an engine or services.

It is SQLite, unless a test is marked `every_database`: then it runs once on each kind, because a
database could break what it is about; `make test` by day takes one of the two servers.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from tests.admin.kit.clock import Clock, turn_clock_of_server
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.served import Served, served
from tests.admin.kit.services import World
from tests.support.databases import KeptDatabase, chosen_kinds, kinds_of, sqlite_with_tables
from tests.support.nightly import IS_NIGHT
from tickwheel_admin.store.database.database import Database

ADMIN_TESTS = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("every_database")
    if marker is not None and "store_url" in metafunc.fixturenames:
        left_out = marker.kwargs.get("but", ())
        kinds: Sequence[str] = [kind for kind in chosen_kinds() if kind not in left_out]
        file = metafunc.definition.path.relative_to(ADMIN_TESTS)
        if marker.kwargs.get("nightly") and not IS_NIGHT:
            kinds = [kind for kind in kinds if kind == "sqlite"]
        elif file.parts[0] != "store":
            # Statements are tested on every server, by day as well; what is built of them on one.
            kinds = kinds_of(f"{file.as_posix()} {metafunc.function.__name__}", kinds)
        metafunc.parametrize("store_url", kinds, indirect=True)


@pytest.fixture(autouse=True)
def kept_umask() -> Iterator[None]:
    """Commands that a test runs in its own process set another one; the next test has the old."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with every table and no rows."""
    kind = getattr(request, "param", "sqlite")
    if kind == "sqlite":
        return sqlite_with_tables(tmp_path / "tickwheel.db")
    kept: KeptDatabase = request.getfixturevalue(f"kept_{kind}")
    return kept.emptied()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def turned_clock(request: pytest.FixtureRequest) -> Clock | None:
    """`clock` is the database's time where tests are marked `turned_clock`, else it has its own.

    That of SQLite; of MariaDB and PostgreSQL as well with `turned_clock(of_servers=True)`.
    """
    marker = request.node.get_closest_marker("turned_clock")
    is_turned = marker is not None and marker.args != (False,)
    return request.getfixturevalue("clock") if is_turned else None


@pytest.fixture
async def database(
    request: pytest.FixtureRequest, store_url: str, turned_clock: Clock | None
) -> AsyncIterator[Database]:
    database = Database(store_url, clock=turned_clock)
    marker = request.node.get_closest_marker("turned_clock")
    if turned_clock is not None and marker.kwargs.get("of_servers"):
        turn_clock_of_server(database, turned_clock)
    yield database
    await database.close()


@pytest.fixture
def admin(database: Database) -> Admin:
    """An engine that has not entered the cluster's books."""
    return Admin(database)


@pytest.fixture
async def node(admin: Admin) -> FakeSession:
    """Of executor 1, with ten slots."""
    return await admin.add_node(1)


@pytest.fixture
def world(store_url: str, turned_clock: Clock | None) -> Iterator[World]:
    """Every service."""
    world = World(store_url, clock=turned_clock, has_tables=True)
    yield world
    world.close()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Served]:
    """Console and API over real HTTP."""
    async with served(tmp_path) as site:
        yield site
