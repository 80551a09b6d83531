"""Which statements the database server itself has counted as slow, if it counts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

SLOW_MS = 200  # on average: those of the engine take some milliseconds, those of pages some dozens
MIN_CALLS = 20
MOST = 5
_MAX_CHARS = 200
_LIBRARY_IS_LOADED = "SELECT count(*) FROM pg_settings WHERE name = 'pg_stat_statements.max'"
_SCHEMA = (
    "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace"
    " ON pg_namespace.oid = extnamespace WHERE extname = 'pg_stat_statements'"
)
_OF_POSTGRESQL = """
SELECT query AS text, calls, mean_exec_time AS mean_ms FROM {schema}.pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
AND calls >= :calls AND mean_exec_time > :slow_ms
ORDER BY total_exec_time DESC LIMIT :most
"""
_OF_MYSQL = """
SELECT digest_text AS text, count_star AS calls, avg_timer_wait / 1000000000 AS mean_ms
FROM performance_schema.events_statements_summary_by_digest
WHERE schema_name = DATABASE() AND count_star >= :calls
AND avg_timer_wait > :slow_ms * 1000000000
ORDER BY sum_timer_wait DESC LIMIT :most
"""
_COUNTERS = ("slow_queries", "uptime")
_VARIABLES = ("long_query_time", "slow_query_log", "performance_schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStatement:
    """A statement of this database, with its values left out by the server."""

    text: str
    calls: int
    mean_ms: int


def read_slow_statements(conn: sa.Connection) -> list[SlowStatement] | None:
    """Those that have taken longest in all; None: the server does not count them.

    On MariaDB and MySQL the user needs the right to read performance_schema.
    """
    limits = {"calls": MIN_CALLS, "slow_ms": SLOW_MS, "most": MOST}
    if conn.dialect.name == "postgresql":
        if not conn.exec_driver_sql(_LIBRARY_IS_LOADED).scalar_one():
            return None
        schema = conn.exec_driver_sql(_SCHEMA).scalar_one_or_none()
        if schema is None:
            return None
        rows = conn.execute(sa.text(_OF_POSTGRESQL.format(schema=schema)), limits)
    elif conn.dialect.name == "sqlite":
        return []
    elif read_slow_counters(conn)["performance_schema"].lower() in ("on", "1"):
        rows = conn.execute(sa.text(_OF_MYSQL), limits)
    else:
        return None
    return [_statement(row) for row in rows]


def read_slow_counters(conn: sa.Connection) -> Mapping[str, str]:
    """MariaDB and MySQL: what the server counts and logs, by its names in lower case."""
    found: dict[str, str] = {}
    for question, names in (("STATUS", _COUNTERS), ("VARIABLES", _VARIABLES)):
        rows = conn.exec_driver_sql(f"SHOW GLOBAL {question}")
        found |= {row[0].lower(): str(row[1]) for row in rows if row[0].lower() in names}
    return found


def _statement(row: Any) -> SlowStatement:
    text = " ".join((row.text or "?").split())
    if len(text) > _MAX_CHARS:
        text = text[: _MAX_CHARS - 1] + "…"
    return SlowStatement(text=text, calls=int(row.calls), mean_ms=round(row.mean_ms))
