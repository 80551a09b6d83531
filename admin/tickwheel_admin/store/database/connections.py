"""Engines for the three kinds of database, with limits on every connection.

A connection that waits for ever would hold a lock for ever, so statements, lock waits, idle
transactions and the socket itself each have a limit of at most five seconds.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

STATEMENT_SECONDS = 4
LOCK_WAIT_SECONDS = 3
IDLE_TRANSACTION_SECONDS = 5
SOCKET_SECONDS = 5
RESTED_SECONDS = 2.0  # a connection that was not used for so long is asked whether it lives

# Codes after which the same transaction can succeed, by the drivers' documentation.
_MYSQL_TRANSIENT = frozenset(
    {
        1020,  # record changed since last read
        1040,  # too many connections
        1047,  # Galera: node not ready
        1053,  # server shutdown in progress
        1158, 1159, 1160, 1161,  # network errors
        1205,  # lock wait timeout: InnoDB rolls back only the statement, so we roll back all
        1213,  # deadlock, and on Galera a lost certification
        1290,  # read-only: a primary on its way to being one
        1317,  # query interrupted
        1792,  # read-only transaction
        1836,  # read-only mode
        1927,  # connection was killed
        1969,  # MariaDB statement timeout
        2002, 2003, 2006, 2013, 2014, 2055,  # cannot connect, gone away, lost, out of sync
        3024,  # MySQL statement timeout
        4031,  # disconnected for inactivity
    }
)  # fmt: skip
_MYSQL_READ_ONLY = (1290, 1792, 1836)
_POSTGRESQL_READ_ONLY = "25006"
_POSTGRESQL_TRANSIENT = frozenset(
    {
        "25006",  # read-only transaction: a standby being promoted
        "25P03",  # idle in transaction timeout
        "40001",  # serialization failure
        "40P01",  # deadlock
        "53300",  # too many connections
        "55P03",  # lock not available
        "57014",  # statement timeout
        "57P01", "57P02", "57P03", "57P05",  # shutdown, crash, starting up, idle timeout
    }
)  # fmt: skip


def create_engine(
    url: str, *, connections: int, clock: Callable[[], int] | None = None
) -> sa.Engine:
    """An engine whose every connection has limits and the isolation the store relies on."""
    name = sa.make_url(url).get_backend_name()
    if name == "sqlite":
        return _sqlite_engine(url, connections=connections, clock=clock or _wall_clock_ms)
    if name in ("mysql", "mariadb"):
        return _mysql_engine(url, connections=connections)
    if name == "postgresql":
        return _postgresql_engine(url, connections=connections)
    raise ValueError(
        f"unsupported database: {name}; use sqlite, mysql+pymysql, mysql+mysqldb"
        " or postgresql+psycopg"
    )


def is_transient(error: sa.exc.DBAPIError) -> bool:
    """Whether the whole transaction may succeed when it is repeated."""
    if error.connection_invalidated:
        return True
    original: Any = error.orig
    if isinstance(original, sqlite3.OperationalError):
        return "locked" in str(original) or "busy" in str(original)
    if type(original).__module__.startswith("psycopg"):
        if original.sqlstate is not None:
            return original.sqlstate in _POSTGRESQL_TRANSIENT or original.sqlstate.startswith("08")
        # Without an SQLSTATE the server was not reached or the socket broke.
        return type(original).__name__ in ("OperationalError", "ConnectionTimeout")
    # MySQL's SQLSTATEs are too coarse: a lock wait is HY000. PyMySQL and mysqlclient have the code.
    code = original.args[0] if getattr(original, "args", ()) else None
    return code in _MYSQL_TRANSIENT or (code == 0 and "InterfaceError" in type(original).__name__)


def _wall_clock_ms() -> int:
    # SQLite lives in this process, so this process's clock is the database's clock.
    return time.time_ns() // 1_000_000


def _sqlite_engine(url: str, *, connections: int, clock: Callable[[], int]) -> sa.Engine:
    engine = sa.create_engine(
        url,
        hide_parameters=True,  # errors end up in logs, people's data must not
        pool_size=connections,
        max_overflow=0,
        poolclass=sa.QueuePool,
        connect_args={"timeout": LOCK_WAIT_SECONDS, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None  # the driver must not begin transactions by itself
        connection.create_function("tickwheel_now", 0, clock)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")  # an acknowledged result is on the disk
        connection.execute("PRAGMA temp_store=MEMORY")

    @event.listens_for(engine, "begin")
    def begin(conn: sa.Connection) -> None:
        # IMMEDIATE: two transactions that read and then write could otherwise never both finish.
        read_only = conn.get_execution_options().get("tickwheel_read_only", False)
        conn.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _mysql_engine(url: str, *, connections: int) -> sa.Engine:
    engine = sa.create_engine(
        url,
        hide_parameters=True,  # errors end up in logs, people's data must not
        isolation_level="READ COMMITTED",
        pool_size=connections,
        max_overflow=0,
        pool_recycle=1800,
        pool_reset_on_return=None,  # every transaction is ended by who began it (store.database)
        connect_args={
            # mysqlclient would take the C library's, which may know no more than Latin letters.
            "charset": sa.make_url(url).query.get("charset", "utf8mb4"),
            "connect_timeout": SOCKET_SECONDS,
            "read_timeout": SOCKET_SECONDS,
            "write_timeout": SOCKET_SECONDS,
            # With the backslash as an escape PyMySQL translates every character of every JSON array
            # (15 ns each, more than all else it does); without it only quotes are doubled.
            "init_command": (
                "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',NO_BACKSLASH_ESCAPES')"
            ),
        },
    )

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT VERSION()")
            mariadb = "mariadb" in cursor.fetchone()[0].lower()
            cursor.execute(
                f"SET SESSION innodb_lock_wait_timeout={LOCK_WAIT_SECONDS}, time_zone='+00:00'"
            )
            if mariadb:
                cursor.execute(
                    f"SET SESSION max_statement_time={STATEMENT_SECONDS},"
                    f" idle_transaction_timeout={IDLE_TRANSACTION_SECONDS},"
                    # Else a thousand ids become a temporary table, and its rows are sorted.
                    " in_predicate_conversion_threshold=0"
                )
            else:  # MySQL limits only SELECTs and has no idle limit; the socket's limit remains
                cursor.execute(f"SET SESSION max_execution_time={STATEMENT_SECONDS * 1000}")

    return _asking_after_rest(_closing_in_doubt(engine))


def _postgresql_engine(url: str, *, connections: int) -> sa.Engine:
    engine = sa.create_engine(
        url,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        pool_size=connections,
        max_overflow=0,
        pool_recycle=1800,
        pool_reset_on_return=None,  # every transaction is ended by who began it (store.database)
        connect_args={
            "connect_timeout": SOCKET_SECONDS,
            "tcp_user_timeout": SOCKET_SECONDS * 1000,
            "keepalives_idle": SOCKET_SECONDS,
            "keepalives_interval": 1,
            "keepalives_count": 3,
            "options": (
                f"-c statement_timeout={STATEMENT_SECONDS}s"
                f" -c lock_timeout={LOCK_WAIT_SECONDS}s"
                f" -c idle_in_transaction_session_timeout={IDLE_TRANSACTION_SECONDS}s"
                " -c timezone=UTC"
            ),
        },
    )
    return _asking_after_rest(_closing_in_doubt(engine))


def _closing_in_doubt(engine: sa.Engine) -> sa.Engine:
    """Close a connection whose COMMIT or ROLLBACK failed: its transaction may still be open.

    A Galera node that is cut off refuses both. SQLAlchemy rolls nothing back after a failed COMMIT,
    nor does this pool, so the next transaction would go on in the one that failed. And close all
    that lead to a server which takes no writes after a failover: new ones find the one that does.
    """

    @event.listens_for(engine, "handle_error")
    def close(context: sa.engine.ExceptionContext) -> None:
        is_end = context.statement is None and context.connection is not None
        if is_end and not context.is_disconnect:
            context.is_disconnect = True
            context.invalidate_pool_on_disconnect = False  # the other connections may be well
        if _is_read_only(context.original_exception):
            context.is_disconnect = True  # all of them: it is time to look for the new primary

    return engine


def _is_read_only(error: Any) -> bool:
    """Whether the server takes no writes: it was the primary, and is none any more."""
    code = error.args[0] if error.args else None
    sqlstate = getattr(error, "sqlstate", None)
    return code in _MYSQL_READ_ONLY or sqlstate == _POSTGRESQL_READ_ONLY


def _asking_after_rest(engine: sa.Engine) -> sa.Engine:
    """Ask a connection whether it lives before it is used, if it has not been for a while.

    A busy one is found broken by the transaction itself, which is repeated anyway; to ask each
    time (`pool_pre_ping`) is a round trip, two with PostgreSQL, before every transaction.
    """

    @event.listens_for(engine, "checkin")
    def note(_connection: Any, record: Any) -> None:
        record.info["used_at"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ask(connection: Any, record: Any, _proxy: object) -> None:
        if time.monotonic() - record.info.get("used_at", 0.0) < RESTED_SECONDS:
            return
        try:
            alive = engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise sa.exc.DisconnectionError(str(error)) from error
        if not alive:
            raise sa.exc.DisconnectionError("the server has ended the connection")

    return engine
