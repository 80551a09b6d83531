"""Drivers of databases: chosen by URL, with limits, and errors that pass are told from others."""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Callable
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from tickwheel_admin import config_values
from tickwheel_admin.store.database.connections import create_engine, is_transient
from tickwheel_admin.store.database.database import Database, Repeat

# mysqlclient is nobody's duty: it needs a compiler. What it raises is known without it.
MYSQL_DRIVERS = ("pymysql", *(("mysqldb",) if importlib.util.find_spec("MySQLdb") else ()))

READ_ONLY = {
    "mysql": "SET SESSION TRANSACTION READ ONLY",
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
}


class _MySQLdbError(Exception):
    """As mysqlclient's: the server's code and its words are the arguments."""


_MySQLdbError.__module__ = "MySQLdb"
_InterfaceError = type("InterfaceError", (_MySQLdbError,), {"__module__": "MySQLdb"})


def failed(error: Exception) -> sa.exc.DBAPIError:
    return sa.exc.DBAPIError("SELECT 1", {}, error)


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("database is locked"),
        pymysql.err.OperationalError(1213, "Deadlock found"),
        pymysql.err.InterfaceError(0, ""),
        _MySQLdbError(1205, "Lock wait timeout exceeded"),
        _MySQLdbError(2013, "Lost connection to server during query"),
        _InterfaceError(0, ""),
        psycopg.OperationalError("the connection is closed"),
        psycopg.errors.DeadlockDetected(),
    ],
)
def test_what_may_succeed_when_repeated_is_repeated(error: Exception) -> None:
    assert is_transient(failed(error))


@pytest.mark.parametrize(
    "error",
    [
        sqlite3.OperationalError("no such table: run"),
        pymysql.err.ProgrammingError(1064, "You have an error in your SQL syntax"),
        _MySQLdbError(1406, "Data too long for column"),
        _MySQLdbError("it cannot read this"),
        _MySQLdbError(),
        psycopg.errors.UndefinedTable(),
    ],
)
def test_what_would_fail_again_is_not(error: Exception) -> None:
    assert not is_transient(failed(error))


@pytest.mark.parametrize("driver", MYSQL_DRIVERS)
def test_a_driver_of_mysql_by_url_alone(mariadb_url: str, driver: str) -> None:
    """Without a charset in the URL, with limits, and counting the rows that a condition met."""
    bare = sa.make_url(mariadb_url).set(drivername=f"mysql+{driver}", query={})
    engine = create_engine(bare.render_as_string(hide_password=False), connections=1)
    text = "汉字 😀 % \\ '"
    with engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE t (id INT PRIMARY KEY, text LONGTEXT)")
        conn.execute(sa.text("INSERT INTO t VALUES (1, :text)"), {"text": text})
        same = conn.execute(sa.text("UPDATE t SET text = :text WHERE id = 1"), {"text": text})
        limits = conn.exec_driver_sql(
            "SELECT @@innodb_lock_wait_timeout, @@max_statement_time"
        ).one()
        # Its name differs from version to version.
        isolation = conn.exec_driver_sql(
            "SHOW VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')"
        ).all()
        mode = conn.exec_driver_sql("SELECT @@SESSION.sql_mode").scalar_one()
        assert conn.execute(sa.text("SELECT text FROM t")).scalar_one() == text
    assert same.rowcount == 1  # as a compare-and-set that changes nothing must count
    assert [int(limit) for limit in limits] == [3, 4]
    assert {level for _name, level in isolation} == {"READ-COMMITTED"}
    assert {"NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES"} <= set(mode.split(","))
    endless = "SET STATEMENT max_statement_time = 0.05 FOR SELECT SLEEP(3)"
    with engine.begin() as conn, pytest.raises(sa.exc.DBAPIError) as stopped:
        conn.exec_driver_sql(endless)
    assert is_transient(stopped.value)
    engine.dispose()


@pytest.mark.parametrize(
    ("kind", "refusal"),
    [
        ("mariadb", pymysql.err.OperationalError(1047, "WSREP has not yet prepared node")),
        ("postgresql", psycopg.errors.SerializationFailure()),
    ],
)
def test_a_transaction_that_could_not_end_is_no_part_of_the_next(
    request: pytest.FixtureRequest, kind: str, refusal: Exception
) -> None:
    """A node of a cluster that is cut off refuses COMMIT and ROLLBACK, and keeps what is open."""
    database = Database(request.getfixturevalue(f"{kind}_url"), threads=1)
    database.run_sync(lambda conn: conn.execute(sa.text("CREATE TABLE t (id INT)")))
    dialect: Any = database.engine.dialect
    refused = []

    def refusing(end: Callable[[Any], None]) -> Callable[[Any], None]:
        def try_to(connection: Any) -> None:
            if end not in refused:
                refused.append(end)
                raise refusal
            end(connection)

        return try_to

    dialect.do_commit = refusing(dialect.do_commit)
    database.run_sync(lambda conn: conn.execute(sa.text("INSERT INTO t VALUES (1)")))
    dialect.do_rollback = refusing(dialect.do_rollback)
    tries = []

    def give_up_once(conn: sa.Connection) -> None:
        conn.execute(sa.text("INSERT INTO t VALUES (2)"))
        tries.append(conn)
        if len(tries) == 1:
            raise Repeat

    database.run_sync(give_up_once)
    found = database.read_sync(
        lambda conn: conn.execute(sa.text("SELECT id FROM t ORDER BY id")).scalars().all()
    )
    assert (found, len(refused)) == ([1, 2], 2)
    database.close_sync()


@pytest.mark.parametrize("kind", ["mariadb", "postgresql"])
def test_a_connection_to_what_was_the_primary_is_given_up(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """A failover: the old server takes no writes any more, and its connections live on."""
    database = Database(request.getfixturevalue(f"{kind}_url"), threads=1)
    database.run_sync(lambda conn: conn.exec_driver_sql("CREATE TABLE t (id INT PRIMARY KEY)"))

    def demote(conn: sa.Connection) -> None:
        conn.exec_driver_sql(READ_ONLY[conn.dialect.name])

    database.run_sync(demote)
    database.run_sync(lambda conn: conn.exec_driver_sql("INSERT INTO t VALUES (1)"))
    ids = database.read_sync(lambda conn: conn.exec_driver_sql("SELECT id FROM t").scalars().all())
    assert ids == [1]
    database.close_sync()


@pytest.mark.parametrize("scheme", ["mysql+mysqldb", "mariadb+mysqldb"])
def test_mysqlclient_is_asked_for_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    found: list[Any] = [None, object()]
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: found.pop(0))
    url = f"{scheme}://user:hunter2@db/tickwheel"

    with pytest.raises(ValueError, match=r"pip install .mysqlclient") as refused:
        config_values.database_url(url)
    assert "hunter2" not in str(refused.value)
    assert config_values.database_url(url) == url
