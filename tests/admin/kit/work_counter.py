"""Counts what is asked of a database, and what it does for that: no clock, the same everywhere."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tests.support.polling import wait_until
from tests.support.servers.postgresql import KEEPER
from tickwheel_admin.store.database.database import Database

STEPS = 10  # of SQLite's virtual machine, which is what it can be asked to count


@dataclass
class Work:
    """What one stretch of work took."""

    statements: int = 0
    sets: int = 0  # of parameters; a driver may send each as a statement
    commits: int = 0
    # What the server did: rows read and written on MariaDB (its Handler counters, which see scans
    # and sorts too) and PostgreSQL (its statistics of tables), tens of steps on SQLite.
    touched: int = 0
    # Bytes of the write-ahead log of MariaDB and PostgreSQL: each entry of an index that is written
    # adds to them, as each row does. 0 on SQLite, whose steps count entries.
    logged: int = 0
    texts: list[str] = field(default_factory=list, repr=False)  # of the statements

    def __add__(self, other: Work) -> Work:
        return Work(
            statements=self.statements + other.statements,
            sets=self.sets + other.sets,
            commits=self.commits + other.commits,
            touched=self.touched + other.touched,
            logged=self.logged + other.logged,
            texts=self.texts + other.texts,
        )


@asynccontextmanager
async def counted(database: Database) -> AsyncIterator[Work]:
    """Count what any database engine of this process is asked meanwhile; nobody else may work."""
    work = Work()

    def on_statement(
        _conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool
    ) -> None:
        work.statements += 1
        work.texts.append(statement)
        work.sets += len(parameters) if many else 1

    def on_commit(_conn: Any) -> None:
        work.commits += 1

    touched = _TOUCHED[database.engine.dialect.name](database)
    sa.event.listen(sa.Engine, "before_cursor_execute", on_statement)
    sa.event.listen(sa.Engine, "commit", on_commit)
    try:
        yield work
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", on_statement)
        sa.event.remove(sa.Engine, "commit", on_commit)
    work.touched, work.logged = touched.so_far()


class _SQLite:
    """Counts steps on every connection that is opened or used from now on."""

    def __init__(self, database: Database) -> None:
        self._engine = database.engine
        self._engine.dispose()  # those that come now are counted
        self._tens = 0
        sa.event.listen(self._engine, "connect", self._count_on)

    def _count_on(self, connection: sqlite3.Connection, _record: object) -> None:
        connection.set_progress_handler(self._one_more, STEPS)

    def _one_more(self) -> None:
        self._tens += 1

    def so_far(self) -> tuple[int, int]:
        sa.event.remove(self._engine, "connect", self._count_on)
        self._engine.dispose()
        return self._tens, 0


class _Server:
    """Reads a server's own counters before and after."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._before = self._read()
        self._log_before = database.read_sync(self._log_position)

    def so_far(self) -> tuple[int, int]:
        logged = self._database.read_sync(self._log_position) - self._log_before
        return self._read() - self._before, logged

    def _read(self) -> int:
        raise NotImplementedError

    @staticmethod
    def _log_position(conn: sa.Connection) -> int:
        raise NotImplementedError


class _MariaDB(_Server):
    def _read(self) -> int:
        rows = self._database.read_sync(
            lambda conn: conn.execute(sa.text("SHOW GLOBAL STATUS LIKE 'Handler_%'")).all()
        )
        counters = {name.removeprefix("Handler_"): int(value) for name, value in rows}
        return sum(
            value
            for name, value in counters.items()
            if name.startswith("read_") or name in ("write", "update", "delete")
        )

    @staticmethod
    def _log_position(conn: sa.Connection) -> int:
        row = conn.execute(sa.text("SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'")).one()
        return int(row[1])


class _PostgreSQL(_Server):
    def _read(self) -> int:
        self._database.engine.dispose()  # a session tells its counts at its end, at the latest
        wait_until(
            lambda: not self._database.read_sync(_other_sessions),
            what="the sessions before this one to end",
        )
        return self._database.read_sync(_tuples)

    @staticmethod
    def _log_position(conn: sa.Connection) -> int:
        position = conn.execute(sa.text("SELECT pg_current_wal_insert_lsn() - '0/0'"))
        return int(position.scalar_one())


def _other_sessions(conn: sa.Connection) -> int:
    return int(
        conn.execute(
            sa.text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
                f" AND application_name <> '{KEEPER}'"
            )
        ).scalar_one()
    )


def _tuples(conn: sa.Connection) -> int:
    return int(
        conn.execute(
            sa.text(
                "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)"
                " + n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables"
            )
        ).scalar_one()
    )


_TOUCHED: dict[str, Callable[[Database], _SQLite | _Server]] = {
    "sqlite": _SQLite,
    "mysql": _MariaDB,
    "mariadb": _MariaDB,
    "postgresql": _PostgreSQL,
}


def know_tables(conn: sa.Connection) -> None:
    """Let the server know how its tables are filled, as a production server does after a while.

    PostgreSQL also reads small tables as it reads large ones: by their indexes. It would scan
    thousands of rows together with the one that is looked for, and so hide what indexes are for.
    """
    if conn.dialect.name in ("mysql", "mariadb"):
        conn.execute(sa.text("ANALYZE TABLE `trigger`, run, job, node")).all()
        return
    conn.execute(sa.text("ANALYZE"))
    if conn.dialect.name == "postgresql":
        for way in ("seqscan", "hashjoin", "mergejoin"):
            name = conn.engine.url.database
            conn.execute(sa.text(f'ALTER DATABASE "{name}" SET enable_{way} = off'))
