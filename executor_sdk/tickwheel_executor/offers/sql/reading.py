"""Proof that a statement only reads: what the databases themselves enforce."""

from __future__ import annotations

import sqlite3
from typing import Any

import sqlalchemy as sa

from tickwheel_executor.errors import Fail

_IN_READ_ONLY_TRANSACTION = 0x2000  # of the protocol: SERVER_STATUS_IN_TRANS_READONLY
_MODE = "SELECT current_setting('transaction_read_only')"
_READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_TRANSACTION,
}
# They describe tables; FTS tables ask for the first one.
_READING_PRAGMAS = {
    "data_version",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
}


def prove_read_only(conn: sa.Connection) -> None:
    """Before each statement of a read-only connection: its transaction cannot write.

    PostgreSQL lets a transaction become a writing one until its first query, which this is. The
    status of MySQL tells whether an earlier statement has ended the transaction. SQLite asks
    `authorize_reading` about each step.

    Raises:
        Fail: the transaction could write.
    """
    if conn.dialect.name == "sqlite":
        return
    if conn.dialect.name == "postgresql":
        is_proven = conn.exec_driver_sql(_MODE).scalar_one() == "on"
    else:
        raw: Any = conn.connection.dbapi_connection
        is_proven = bool(raw.server_status & _IN_READ_ONLY_TRANSACTION)
    if not is_proven:
        raise Fail(
            "the server does not confirm that the transaction is read-only, so nothing was sent; "
            "if a proxy in between hides it, connect past it, or leave read_only out and give the "
            "user of the database the right to read only"
        )


def authorize(action: int, *details: str | None) -> int:
    """Statements of SQLite could create and change files anywhere by attaching them."""
    is_refused = action == sqlite3.SQLITE_ATTACH
    is_refused |= action == sqlite3.SQLITE_FUNCTION and details[1] == "load_extension"
    return sqlite3.SQLITE_DENY if is_refused else sqlite3.SQLITE_OK


def authorize_reading(action: int, *details: str | None) -> int:
    """Likewise, and only what reads."""
    if action == sqlite3.SQLITE_UPDATE:
        # SQLite asks so before it opens a virtual table such as json_each. A statement cannot
        # change this table: it takes pragmas that are refused.
        is_reading = details[0] == "sqlite_master"
    elif action == sqlite3.SQLITE_PRAGMA:
        is_reading = (details[0] or "").lower() in _READING_PRAGMAS
    else:
        is_reading = action in _READING
    return authorize(action, *details) if is_reading else sqlite3.SQLITE_DENY
