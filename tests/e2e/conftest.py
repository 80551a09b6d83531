"""A cluster on an empty database, and an environment that says nothing of the developer's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.support.availability import unavailable
from tests.support.databases import chosen_kinds
from tests.support.nightly import IS_NIGHT
from tests.support.servers import DatabaseServer, MariaDB, PostgreSQL

SERVERS: dict[str, type[DatabaseServer]] = {"mariadb": MariaDB, "postgresql": PostgreSQL}


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No process may see the settings or the data of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


@pytest.fixture
def cluster(database_url: str, tmp_path: Path) -> Iterator[Cluster]:
    """One admin on each kind of database, and an executor without nodes."""
    with Cluster(tmp_path, database_url) as cluster:
        cluster.start_admin()
        cluster.add_executor()
        yield cluster


def by_day(kind: str) -> list[str]:
    """On which servers a test runs: on one by day, where others do the same to the other one."""
    return [each for each in chosen_kinds() if each in SERVERS and (IS_NIGHT or each == kind)]


@pytest.fixture(scope="session", params=[kind for kind in chosen_kinds() if kind in SERVERS])
def own_server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A durable server that tests may crash; they start it again."""
    kind = SERVERS[request.param]
    if not kind.is_installed():
        unavailable(f"{kind.name} is not installed")
    with kind(durable=True) as running:
        yield running
