"""A database of each kind that all tests of a module share: a fresh one costs half a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.databases import chosen_kinds, fresh_database
from tickwheel_admin.store.database import Database
from tickwheel_admin.store.tables import metadata


@pytest.fixture(scope="module", params=chosen_kinds())
def shared_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """A database with every table; each test takes an executor of its own there."""
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
