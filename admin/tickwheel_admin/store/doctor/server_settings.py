"""What a database server is set to, how large its tables are, and how old its statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.database.tables import metadata

_POSTGRESQL = (
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "max_connections",
    "autovacuum",
    "track_counts",
)
_MYSQL = (
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "log_bin",
    "binlog_format",
    "innodb_doublewrite",
    "max_connections",
    "max_allowed_packet",
    "innodb_buffer_pool_size",
    "read_only",
)
_SQLITE = ("journal_mode", "synchronous")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """A table as the server's own statistics know it."""

    name: str
    rows: int  # about
    bytes: int  # with its indexes; 0: not known
    dead_rows: int = 0  # PostgreSQL: about how many wait for vacuum
    was_analyzed: bool = True  # PostgreSQL: whether the planner has ever counted it


def read_server_settings(conn: sa.Connection) -> Mapping[str, str]:
    """Settings that decide whether a commit survives a crash, by the server's names in lower case.

    Those that the server does not have are missing.
    """
    kind = conn.dialect.name
    if kind == "sqlite":
        return {name: str(conn.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in _SQLITE}
    if kind == "postgresql":
        found = conn.execute(
            sa.text("SELECT name, setting FROM pg_settings WHERE name = ANY(:names)"),
            {"names": list(_POSTGRESQL)},
        )
        standby = conn.execute(sa.text("SELECT pg_is_in_recovery()")).scalar_one()
        return {row.name: row.setting for row in found} | {"read_only": "on" if standby else "off"}
    rows = conn.exec_driver_sql("SHOW GLOBAL VARIABLES")
    return {row[0].lower(): str(row[1]) for row in rows if row[0].lower() in _MYSQL}


def read_table_sizes(conn: sa.Connection) -> list[TableSize]:
    """Our tables, the largest first; of SQLite those of its last ANALYZE, if there was one."""
    kind = conn.dialect.name
    if kind == "sqlite":
        return []
    if kind == "postgresql":
        rows = conn.exec_driver_sql(
            "SELECT relname AS name, n_live_tup AS live, n_dead_tup AS dead,"
            " pg_total_relation_size(relid) AS size,"
            " last_analyze IS NOT NULL OR last_autoanalyze IS NOT NULL AS analyzed"
            " FROM pg_stat_user_tables WHERE schemaname = current_schema()"
        )
        found = [
            TableSize(
                name=row.name,
                rows=row.live,
                bytes=row.size,
                dead_rows=row.dead,
                was_analyzed=row.analyzed,
            )
            for row in rows
        ]
    else:
        rows = conn.exec_driver_sql(
            "SELECT table_name AS name, table_rows AS live,"
            " data_length + index_length AS size"
            " FROM information_schema.tables WHERE table_schema = DATABASE()"
        )
        found = [TableSize(name=r.name, rows=r.live or 0, bytes=int(r.size or 0)) for r in rows]
    ours = [each for each in found if each.name in metadata.tables]
    return sorted(ours, key=lambda each: (-each.bytes, each.name))
