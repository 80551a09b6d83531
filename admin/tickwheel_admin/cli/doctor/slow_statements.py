"""Whether the database server has counted statements that take long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tickwheel_admin.cli.doctor.finding import Finding, warning
from tickwheel_admin.store.doctor.slow_statements import SlowStatement

MAX_AN_HOUR = 10.0  # of all that the server does
_CHECK = "database.slow_statements"
_NOT_COUNTED = {
    "postgresql": (
        "PostgreSQL does not count slow statements. To have them told here: put pg_stat_statements"
        " into shared_preload_libraries, restart the server, and run CREATE EXTENSION"
        " pg_stat_statements in this database."
    ),
    "mysql": (
        "The server does not tell which statements are slow. To have them told here: set"
        " performance_schema = ON, restart the server, and run GRANT SELECT ON"
        " performance_schema.* TO the user of Tickwheel."
    ),
}


def not_counted(kind: str) -> str:
    """What to switch on, so that slow statements are found.

    Args:
        kind: postgresql, mysql or mariadb.
    """
    return _NOT_COUNTED.get(kind, _NOT_COUNTED["mysql"])


def slow_statements(found: Sequence[SlowStatement]) -> Iterator[Finding]:
    """Statements that are slow on average, as the server itself has measured them."""
    for each in found:
        yield warning(
            _CHECK,
            f"A statement takes {each.mean_ms:,} ms on average, of {each.calls:,} times:"
            f" {each.text}",
            "See what it waits for: EXPLAIN it, run ANALYZE on its tables, and look at findings of"
            " database.schema (a missing index), database.memory and the server's load.",
        )


def slow_counters(counters: Mapping[str, str]) -> Iterator[Finding]:
    """Whether MariaDB or MySQL, which does not tell which ones, counts many slow statements."""
    hours = max(int(counters["uptime"]) / 3_600, 1)
    slow = int(counters["slow_queries"])
    if slow / hours <= MAX_AN_HOUR:
        return
    log = "Read the slow query log."
    if counters["slow_query_log"].lower() not in ("on", "1"):
        log = "Switch the log on (SET GLOBAL slow_query_log = ON), and read it after an hour."
    yield warning(
        _CHECK,
        f"The server has counted {slow:,} statements that took longer than"
        f" {float(counters['long_query_time']):g} s, {slow / hours:,.0f} an hour,"
        " in all databases.",
        log,
    )
