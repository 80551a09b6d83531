"""The databases that tests run on: which ones, and how each test gets one that is empty."""

from __future__ import annotations

import itertools
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from tests.support.availability import unavailable
from tests.support.servers import DatabaseServer
from tickwheel_admin.store.database.tables import metadata

KINDS = ("sqlite", "mariadb", "postgresql")
ENVIRONMENT_VARIABLE = "TICKWHEEL_TEST_DATABASES"
ONE_SERVER = "TICKWHEEL_TEST_ONE_SERVER"  # set in `make test` by day

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


def kinds_of(test: str, kinds: Sequence[str]) -> Sequence[str]:
    """What a test of a rule runs on: all these kinds, or one server where ONE_SERVER is set.

    Half of the tests run on each server then, always the same ones.

    Args:
        test: its file and name.
        kinds: those chosen that the test is for.
    """
    servers = [kind for kind in kinds if kind != "sqlite"]
    if ONE_SERVER not in os.environ or len(servers) < 2:
        return kinds
    return (servers[zlib.crc32(test.encode()) % len(servers)],)


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


def sqlite_with_tables(path: Path) -> str:
    """The URL of a new SQLite database with every table: a copy, because making one takes long."""
    path.write_bytes(_sqlite_file())
    return f"sqlite:///{path}"


@cache
def _sqlite_file() -> bytes:
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    metadata.create_all(engine)
    with engine.connect() as conn:
        connection: sqlite3.Connection = conn.connection.driver_connection  # type: ignore[assignment]
        made = bytearray(connection.serialize())
    made[18:20] = b"\x02\x02"  # in WAL mode already; each test would else wait for the change
    return bytes(made)


class KeptDatabase:
    """A database with every table that many tests use, one after the other.

    A new one for each test would take half a second, to empty this takes some milliseconds.
    """

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._name = f"tickwheel_kept_{next(_numbers)}"
        server.create_database(self._name)
        self._url = server.url(self._name)
        # One connection for all: PostgreSQL takes 40 ms of a new one to read about every table.
        self._engine = sa.create_engine(self._url, poolclass=sa.StaticPool, pool_pre_ping=True)
        metadata.create_all(self._engine)
        quote = self._engine.dialect.identifier_preparer.format_table
        self._tables = [quote(table) for table in metadata.sorted_tables]
        self._filled = " UNION ALL ".join(
            f"SELECT {number} FROM (SELECT 1 FROM {table} LIMIT 1) AS t{number}"
            for number, table in enumerate(self._tables)
        )

    def close(self) -> None:
        self._engine.dispose()

    def emptied(self) -> str:
        """Its URL, without the rows and the connections that the test before has left."""
        with self._engine.begin() as conn:
            self._server.end_other_connections(conn)
            filled = conn.exec_driver_sql(self._filled).scalars()
            names = [self._tables[number] for number in filled]
            if self._engine.dialect.name == "postgresql" and names:
                conn.exec_driver_sql(f"TRUNCATE {', '.join(names)}")  # leaves no dead rows to read
            else:
                for name in names:
                    conn.exec_driver_sql(f"DELETE FROM {name}")
        return self._url
