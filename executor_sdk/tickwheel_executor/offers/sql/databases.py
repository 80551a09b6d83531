"""What differs between MySQL, MariaDB, PostgreSQL and SQLite: sessions, timeouts, cancelling."""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from .connections import SqlConnection
from .reading import authorize, authorize_reading
from .url import parse_url

CONNECT_SECONDS = 10
_BUSY_SECONDS = 5.0  # that SQLite waits for another writer
_NETWORK_SECONDS = 30  # on top of a timeout, until a server that says nothing is given up
# Another try may help: deadlocks, failures to serialise, locks that were not free in time.
_RETRY_MYSQL = (1020, 1205, 1213, 3572)
_RETRY_POSTGRESQL = ("40001", "40P01", "55P03")
_NO_CURSOR = ("0A000", "42601")  # a WITH that writes; SELECT INTO, and errors of syntax
_BUSY_SQLITE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_MANY_STATEMENTS = (
    "; if this is more than one statement, write each as an entry of its own in `statements`"
)


def engine_of(connection: SqlConnection) -> sa.Engine:
    """An engine that opens a connection for each use, and keeps no values in its errors."""
    arguments: dict[str, Any] = {}
    seconds = int(connection.max_statement_seconds) + _NETWORK_SECONDS
    match connection.drivername:
        case "sqlite":
            arguments = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
        case "postgresql+psycopg":
            # Prepared statements: other than plain ones, they cannot be several in one text.
            arguments = {
                "connect_timeout": CONNECT_SECONDS,
                "prepare_threshold": 0,
                "tcp_user_timeout": seconds * 1000,
            }
        case _:
            arguments = {
                "connect_timeout": CONNECT_SECONDS,
                "read_timeout": seconds,
                "write_timeout": seconds,
                "local_infile": False,  # else a server could read files of this machine
            }
    return sa.create_engine(
        _url(connection), poolclass=sa.NullPool, hide_parameters=True, connect_args=arguments
    )


def begin_session(
    conn: sa.Connection, *, read_only: bool, timeout_seconds: float, autocommit: bool
) -> None:
    """Prepare a new connection: read-only, and a timeout on the server.

    The timeout counts if this machine dies or is cut off; otherwise the statement is cancelled.
    """
    raw = conn.connection.dbapi_connection
    milliseconds = int((timeout_seconds + _NETWORK_SECONDS) * 1000)
    if conn.dialect.name == "sqlite":
        assert isinstance(raw, sqlite3.Connection)  # noqa: S101 (the dialect's)
        raw.isolation_level = None  # transactions begin where we say
        if read_only:
            raw.execute("PRAGMA query_only = ON")
            raw.set_authorizer(authorize_reading)
        else:
            raw.set_authorizer(authorize)
        return
    if conn.dialect.name == "postgresql":
        commands = [f"SET statement_timeout = {milliseconds}"]
        if read_only:
            raw.read_only = True  # type: ignore[union-attr] # psycopg: BEGIN READ ONLY
    else:
        if getattr(conn.dialect, "is_mariadb", False):
            commands = [f"SET SESSION max_statement_time = {milliseconds / 1000}"]
        else:
            commands = [f"SET SESSION max_execution_time = {milliseconds}"]
        if read_only:
            commands.append("SET SESSION TRANSACTION READ ONLY")
    for command in commands:
        conn.exec_driver_sql(command)
    conn.commit()
    if autocommit:
        set_autocommit(conn, on=True)


def set_autocommit(conn: sa.Connection, *, on: bool) -> None:
    """Between two transactions; not for SQLite, where transactions begin where we say."""
    level = "AUTOCOMMIT" if on else conn.default_isolation_level or conn.get_isolation_level()
    conn.execution_options(isolation_level=level)


def begin_transaction(conn: sa.Connection, *, read_only: bool) -> None:
    """What the driver does not do by itself.

    Read-only is said with each transaction: a statement may be able to change the default.
    """
    if conn.dialect.name == "sqlite":
        conn.exec_driver_sql("BEGIN")
    elif read_only and conn.dialect.name != "postgresql":
        conn.exec_driver_sql("START TRANSACTION READ ONLY")


def limit_rows(conn: sa.Connection, rows: int | None) -> None:
    """MySQL: return at most so many rows, unless the statement has a LIMIT; None: any number.

    It sends rows whether they are wanted or not. PostgreSQL and SQLite are asked for each.
    """
    if conn.dialect.name in ("mysql", "mariadb"):
        conn.exec_driver_sql(
            f"SET SESSION sql_select_limit = {'DEFAULT' if rows is None else int(rows)}"
        )


def instant(conn: sa.Connection, at: datetime) -> object:
    """An instant as this database compares it with its own, in UTC."""
    if conn.dialect.name == "postgresql":
        return at
    naive = at.astimezone(UTC).replace(tzinfo=None)
    return naive.isoformat(" ") if conn.dialect.name == "sqlite" else naive


def canceller(engine: sa.Engine, conn: sa.Connection) -> Callable[[], None]:
    """A function that ends the running statement on the server, from any other thread.

    It does nothing if no statement is running.
    """
    raw: Any = conn.connection.dbapi_connection
    if conn.dialect.name == "sqlite":
        return lambda: _quietly(raw.interrupt)
    if conn.dialect.name == "postgresql":
        return lambda: _quietly(lambda: raw.cancel_safe(timeout=CONNECT_SECONDS))
    number = int(conn.exec_driver_sql("SELECT CONNECTION_ID()").scalar_one())
    conn.rollback()

    def kill() -> None:
        with engine.connect() as second:
            second.exec_driver_sql(f"KILL QUERY {number}")

    return lambda: _quietly(kill)


def sever(conn: sa.Connection) -> None:
    """Break the connection to a server that does not answer, from any other thread."""
    raw: Any = conn.connection.dbapi_connection
    holder = getattr(raw, "_sock", None) or raw  # PyMySQL keeps its socket there
    with (
        suppress(OSError, ValueError, AttributeError),
        socket.socket(fileno=os.dup(holder.fileno())) as same,
    ):
        same.shutdown(socket.SHUT_RDWR)


def reason_of(error: sa.exc.DBAPIError, statement: str) -> tuple[str, bool]:
    """What the database says, in one sentence, and whether another try may help."""
    original: Any = error.orig
    if isinstance(original, sqlite3.Error):
        text = str(original)
        code = getattr(original, "sqlite_errorcode", None) or 0
        many = _MANY_STATEMENTS if "one statement at a time" in text else ""
        if code == sqlite3.SQLITE_AUTH:
            text = f"{text}: jobs cannot attach other files, load extensions, or write if read-only"
        return f"{text}{many}", code & 0xFF in _BUSY_SQLITE
    state = getattr(original, "sqlstate", None)
    if hasattr(original, "diag"):  # psycopg; its whole text may show values of rows
        text = original.diag.message_primary or _first_line(str(original))
        many = _MANY_STATEMENTS if "multiple commands" in text else ""
        return f"{text}{f' ({state})' if state else ''}{many}", state in _RETRY_POSTGRESQL
    number, text = (*original.args, "", "")[:2]
    many = _MANY_STATEMENTS if number == 1064 and ";" in statement else ""
    return f"{_first_line(str(text or number))} ({number}){many}", number in _RETRY_MYSQL


def has_no_cursor(error: sa.exc.DBAPIError) -> bool:
    """Whether PostgreSQL refused to declare a cursor because of the kind of statement."""
    return getattr(error.orig, "sqlstate", None) in _NO_CURSOR


def _url(connection: SqlConnection) -> sa.URL:
    url = parse_url(connection.url, drivername=connection.drivername)
    if connection.user is not None:
        url = url.set(username=connection.user)
    if connection.password is not None:
        url = url.set(password=connection.password)
    return url


def _quietly(cancel: Callable[[], None]) -> None:
    """A cancel that fails is tried again, and then the connection is broken."""
    with suppress(Exception):
        cancel()


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
