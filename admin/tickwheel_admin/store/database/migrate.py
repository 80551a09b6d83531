"""Brings a schema up to this program's version, safely when several admins try at once.

On a server a lock lets one of them work while the others wait and then find nothing to do; on
SQLite the one big transaction is that lock. Connections here have no statement limit, unlike the
pool's: a later step may have to rebuild a large table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from tickwheel_admin.store.database.schema import differences, server_problem
from tickwheel_admin.store.database.tables import metadata

VERSION_TABLE = "tickwheel_version"
LOCK_NAME = "tickwheel.migrate"
LOCK_WAIT_SECONDS = 120
TABLE_LOCK_WAIT_SECONDS = 10
"""A step that waits for a long transaction holds up everyone behind it, so it gives up."""
_POSTGRESQL_LOCK = 0x7469636B  # any number, as long as it is the same in every version

COMMAND = "tickwheel db upgrade"


class SchemaError(Exception):
    """This program cannot work with the database's schema; the text says what to do."""


def head() -> str:
    """The revision that this program needs."""
    return ScriptDirectory.from_config(_config()).get_heads()[0]


def current_revision(conn: sa.Connection) -> str | None:
    """The revision that the database has; None for one that was never migrated."""
    context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def upgrade(engine: sa.Engine) -> bool:
    """Run the steps that are missing; returns whether there were any.

    Raises:
        SchemaError: the database is a newer version's or someone else's, or another upgrade holds
            the lock for too long.
    """
    with _locked(engine) as conn:
        before = current_revision(conn)
        if before == head():
            return False
        _refuse_foreign(conn, before)
        if conn.dialect.name == "postgresql":
            conn.commit()  # each step has a transaction of its own, or none
        config = _config()
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
    return True


def check(engine: sa.Engine) -> list[str]:
    """What is wrong with the schema or its server, in sentences; empty when all is well."""
    with engine.connect().execution_options(tickwheel_read_only=True) as conn:
        if problem := server_problem(conn):
            return [problem]
        if problem := _revision_problem(current_revision(conn)):
            return [problem]
        return differences(conn, metadata)


def prepare(engine: sa.Engine) -> None:
    """For a starting admin: the embedded SQLite upgrades itself, a server's schema is only checked.

    Servers often give the program no right to change the schema, and somebody wants to choose when.

    Raises:
        SchemaError: the program cannot work with this schema.
    """
    if engine.dialect.name == "sqlite":
        upgrade(engine)
    elif problems := check(engine):
        raise SchemaError(" ".join(problems))


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "tickwheel_admin.store:migrations")
    return config


def _revision_problem(revision: str | None) -> str | None:
    if revision == head():
        return None
    if revision is None:
        return f"The database has no Tickwheel schema yet: run `{COMMAND}`."
    if revision in _known_revisions():
        return f"The schema has revision {revision}, this program needs {head()}: run `{COMMAND}`."
    return (
        f"The schema has revision {revision}, which this program does not know: it was made by a"
        " newer version of Tickwheel, so upgrade the program."
    )


def _known_revisions() -> set[str]:
    return {step.revision for step in ScriptDirectory.from_config(_config()).walk_revisions()}


def _refuse_foreign(conn: sa.Connection, revision: str | None) -> None:
    if revision is not None:
        if revision not in _known_revisions():
            raise SchemaError(_revision_problem(revision))
        return
    inspector = sa.inspect(conn)
    # The version table comes first, so an upgrade that was cut off has left it behind.
    if not inspector.has_table(VERSION_TABLE):
        taken = sorted(set(inspector.get_table_names()) & set(metadata.tables))
        if taken:
            raise SchemaError(
                f"The database already has tables that Tickwheel did not make ({', '.join(taken)}):"
                " give it a database of its own."
            )


@contextmanager
def _locked(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection that no other upgrade of the same database can have at the same time."""
    if engine.dialect.name == "sqlite":
        with _begin_sqlite(engine) as conn:
            yield conn
        return
    unlimited = sa.create_engine(
        engine.url, poolclass=sa.NullPool, isolation_level="READ COMMITTED"
    )
    try:
        with unlimited.connect() as conn:
            if unlimited.dialect.name == "postgresql":
                _lock_postgresql(conn)
            else:
                _lock_mysql(conn)
            yield conn
            conn.commit()
    finally:
        unlimited.dispose()


@contextmanager
def _begin_sqlite(engine: sa.Engine) -> Iterator[sa.Connection]:
    # Opening a new file for the first time ignores the busy timeout, so two starting processes can
    # meet "database is locked" at once.
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            conn = engine.connect()
            conn.begin()
            break
        except sa.exc.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
    with conn:
        yield conn
        conn.commit()


def _lock_postgresql(conn: sa.Connection) -> None:
    # The lock belongs to the connection, because an index of a large table is built outside of any
    # transaction. It is asked for again and again: an index that is built without stopping writers
    # waits for every statement under way, and so for one that waits for this lock.
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    asked = sa.text("SELECT pg_try_advisory_lock(:key)")
    while not conn.execute(asked, {"key": _POSTGRESQL_LOCK}).scalar_one():
        conn.commit()
        if time.monotonic() > deadline:
            raise SchemaError(_lock_text())
        time.sleep(0.1)
    conn.execute(sa.text(f"SET lock_timeout = '{TABLE_LOCK_WAIT_SECONDS}s'"))
    conn.commit()


def _lock_mysql(conn: sa.Connection) -> None:
    # Named locks belong to the server, so the name holds the database's; they end with the
    # connection and survive the implicit commits of DDL.
    taken = conn.execute(
        sa.text("SELECT GET_LOCK(CONCAT(:name, SHA1(DATABASE())), :seconds)"),
        {"name": LOCK_NAME, "seconds": LOCK_WAIT_SECONDS},
    ).scalar_one()
    if taken != 1:
        raise SchemaError(_lock_text())
    conn.execute(sa.text(f"SET SESSION lock_wait_timeout = {TABLE_LOCK_WAIT_SECONDS}"))


def _lock_text() -> str:
    return f"Another upgrade of this database has been running for over {LOCK_WAIT_SECONDS} s."
