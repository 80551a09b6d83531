"""The databases that tests run on: which ones, and a fresh one for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.availability import unavailable
from tests.support.servers import DatabaseServer

KINDS = ("sqlite", "mariadb", "postgresql")
ENVIRONMENT_VARIABLE = "TICKWHEEL_TEST_DATABASES"

_numbers = itertools.count(1)


def chosen_kinds() -> tuple[str, ...]:
    """What parametrised tests run on: all, or those that TICKWHEEL_TEST_DATABASES=a,b names."""
    named = [name.strip() for name in os.environ.get(ENVIRONMENT_VARIABLE, "").split(",")]
    wanted = [name for name in named if name]
    if unknown := sorted(set(wanted) - set(KINDS)):
        raise ValueError(
            f"{ENVIRONMENT_VARIABLE} names {', '.join(unknown)}; known are {', '.join(KINDS)}"
        )
    return tuple(kind for kind in KINDS if kind in wanted) if wanted else KINDS


@contextmanager
def running(server: type[DatabaseServer]) -> Iterator[DatabaseServer]:
    """A server for many tests, quick rather than durable; skips or fails without one."""
    if not server.is_installed():
        unavailable(f"{server.name} is not installed")
    with server(durable=False) as running_server:
        yield running_server


@contextmanager
def fresh_database(server: DatabaseServer) -> Iterator[str]:
    """The URL of an empty database, dropped afterwards."""
    name = f"tickwheel_{next(_numbers)}"
    server.create_database(name)
    yield server.url(name)
    server.drop_database(name)
