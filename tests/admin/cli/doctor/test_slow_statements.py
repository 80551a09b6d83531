"""Slow statements: those that servers count, and what is said where they do not."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.support.availability import unavailable
from tests.support.servers.base import USER
from tests.support.servers.mariadb import MariaDB
from tests.support.servers.postgresql import PostgreSQL
from tickwheel_admin.cli.doctor.slow_statements import not_counted, slow_counters, slow_statements
from tickwheel_admin.store.database.database import Database, StatementRefused
from tickwheel_admin.store.doctor.slow_statements import (
    MIN_CALLS,
    SLOW_MS,
    SlowStatement,
    read_slow_counters,
    read_slow_statements,
)

COUNTERS = {
    "slow_queries": "240",
    "uptime": "36000",
    "long_query_time": "2.000000",
    "slow_query_log": "OFF",
    "performance_schema": "OFF",
}


@pytest.mark.every_database
def test_a_server_that_counts_none_is_no_failure(database: Database) -> None:
    """Those of the tests are started with what is built in."""
    found = database.read_sync(read_slow_statements)
    assert found == ([] if database.engine.dialect.name == "sqlite" else None)
    if database.engine.dialect.name in ("mysql", "mariadb"):
        assert database.read_sync(read_slow_counters).keys() == COUNTERS.keys()


def test_what_the_server_calls_slow_is_told_with_its_numbers() -> None:
    assert list(slow_statements([])) == []
    (finding,) = slow_statements([SlowStatement(text="SELECT 1", calls=1_200, mean_ms=310)])
    assert finding.check == "database.slow_statements"
    assert "310 ms on average, of 1,200 times: SELECT 1" in finding.what


def test_many_slow_statements_an_hour_are_told_with_the_log_that_names_them() -> None:
    (off,) = slow_counters(COUNTERS)
    assert "240 statements that took longer than 2 s, 24 an hour" in off.what
    assert "Switch the log on" in off.remedy
    (on,) = slow_counters(COUNTERS | {"slow_query_log": "ON"})
    assert on.remedy == "Read the slow query log."
    assert list(slow_counters(COUNTERS | {"slow_queries": "100"})) == []
    assert list(slow_counters(COUNTERS | {"slow_queries": "9", "uptime": "60"})) == []


def test_what_to_switch_on_is_named() -> None:
    assert "pg_stat_statements" in not_counted("postgresql")
    assert "performance_schema" in not_counted("mariadb")


@pytest.mark.slow
def test_postgresql_tells_its_slow_statements_when_it_counts_them() -> None:
    if not PostgreSQL.is_installed():
        unavailable("PostgreSQL is not installed")
    loaded = ["-c", "shared_preload_libraries=pg_stat_statements"]
    with PostgreSQL(durable=False, options=loaded) as server:
        server.execute(f"ALTER ROLE {USER} SUPERUSER")  # to add the extension
        server.create_database("tickwheel_counted")
        database = Database(server.url("tickwheel_counted"), threads=1)
        try:
            assert database.read_sync(read_slow_statements) is None
            database.run_sync(
                lambda conn: conn.exec_driver_sql("CREATE EXTENSION pg_stat_statements")
            )
            server.execute(f"ALTER ROLE {USER} NOSUPERUSER")
            check(database, "SELECT pg_sleep(0.21)")
        finally:
            database.close_sync()


@pytest.mark.slow
def test_mariadb_tells_its_slow_statements_when_it_counts_them() -> None:
    if not MariaDB.is_installed():
        unavailable("MariaDB is not installed")
    with MariaDB(durable=False, options=["--performance-schema=ON"]) as server:
        server.create_database("tickwheel_counted")
        database = Database(server.url("tickwheel_counted"), threads=1)
        try:
            with pytest.raises(StatementRefused):  # `examine` says what to grant
                database.read_sync(read_slow_statements)
            server.execute(f"GRANT SELECT ON performance_schema.* TO {USER}@'127.0.0.1'")
            check(database, "SELECT SLEEP(0.21)")
        finally:
            database.close_sync()


def check(database: Database, wait: str) -> None:
    def be_slow(conn: sa.Connection) -> None:
        for _ in range(MIN_CALLS):
            conn.exec_driver_sql(wait)

    database.read_sync(be_slow)
    (found,) = database.read_sync(read_slow_statements) or ()
    assert "sleep" in found.text.lower()
    assert found.calls == MIN_CALLS
    assert found.mean_ms >= SLOW_MS
