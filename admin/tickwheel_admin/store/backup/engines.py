"""Connections for copying: without the limits of an admin's, for one transaction may take hours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from tickwheel_admin.store.database.connections import create_engine

_MYSQL_SESSION = (
    "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_BACKSLASH_ESCAPES'), time_zone='+00:00'"
)
_POSTGRESQL_OPTIONS = (
    "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c timezone=UTC"
)
CONNECT_SECONDS = 10


def unlimited_engine(url: str, *, isolation: str) -> sa.Engine:
    """An engine for one long transaction; SQLite's has no limits that matter here."""
    kind = sa.make_url(url).get_backend_name()
    if kind == "sqlite":
        return create_engine(url, connections=2)
    arguments: dict[str, object] = {"connect_timeout": CONNECT_SECONDS}
    if kind == "postgresql":
        arguments["options"] = _POSTGRESQL_OPTIONS
    else:
        arguments |= {"charset": "utf8mb4", "init_command": _MYSQL_SESSION}
    return sa.create_engine(
        url,
        poolclass=sa.NullPool,
        isolation_level=isolation,
        hide_parameters=True,
        connect_args=arguments,
    )


@contextmanager
def snapshot(url: str) -> Iterator[sa.Connection]:
    """A transaction that sees one state of the database, however long it reads; nobody waits."""
    engine = unlimited_engine(url, isolation="REPEATABLE READ")
    try:
        with engine.connect().execution_options(
            tickwheel_read_only=True, postgresql_readonly=True
        ) as conn:
            yield conn
    finally:
        engine.dispose()


@contextmanager
def one_transaction(url: str) -> Iterator[sa.Connection]:
    """A transaction that writes everything, or nothing if the block raises."""
    engine = unlimited_engine(url, isolation="READ COMMITTED")
    try:
        with engine.begin() as conn:
            yield conn
    finally:
        engine.dispose()
