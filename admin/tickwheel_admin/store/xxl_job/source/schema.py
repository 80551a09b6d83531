"""Which tables and columns an XXL-JOB database has: its versions differ, and it stores none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Rows = Callable[[str], list[tuple[Any, ...]]]

REQUIRED = ("xxl_job_group", "xxl_job_info", "xxl_job_log")
TABLES = (
    *REQUIRED,
    "xxl_job_registry",
    "xxl_job_logglue",
    "xxl_job_log_report",
    "xxl_job_lock",
    "xxl_job_user",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSchema:
    """Columns with their types, and indexes, by table; all names in lower case."""

    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    indexes: Mapping[str, frozenset[tuple[str, ...]]] = field(default_factory=dict)

    def has(self, table: str, column: str | None = None) -> bool:
        """Whether there is such a table, or such a column of it."""
        known = self.columns.get(table)
        return known is not None and (column is None or column in known)

    def first_of(self, table: str, *columns: str) -> str | None:
        """The first of these columns that the table has."""
        return next((column for column in columns if self.has(table, column)), None)

    def problem(self) -> str | None:
        """Why this is not the database of an XXL-JOB that can be read; None: it is."""
        found = [table for table in TABLES if self.has(table)]
        if not found:
            return "this is not an XXL-JOB database: it has none of the tables xxl_job_…"
        missing = [table for table in REQUIRED if not self.has(table)]
        if missing:
            return (
                f"this XXL-JOB database cannot be read: it has no {', '.join(missing)}, or this"
                " user may not see it"
            )
        if not (self.has("xxl_job_info", "schedule_conf") or self.has("xxl_job_info", "job_cron")):
            return (
                "this XXL-JOB database cannot be read: xxl_job_info has neither schedule_conf"
                " (2.3 and later) nor job_cron (2.2)"
            )
        return None

    @property
    def version(self) -> str:
        """Which versions of XXL-JOB have such a schema, as people write it.

        3.0 to 3.3 differ from each other in too little; a schema that was upgraded by hand may lack
        an index, and is then taken for an older one.
        """
        info, log = "xxl_job_info", "xxl_job_log"
        if not self.has(info, "schedule_conf"):
            return "2.2"
        if self.has("xxl_job_group", "access_token") or self.has(info, "name"):
            return "3.5"
        if self._is_indexed(log, "job_group"):
            return "3.4"
        if self._is_indexed(log, "job_id"):
            # 3.0 brought new strategies, no column; sessions of users came with 3.2.
            return "3.2-3.3" if self.has("xxl_job_user", "token") else "2.5-3.1"
        return "2.3-2.4"

    def _is_indexed(self, table: str, column: str) -> bool:
        return any(index[0] == column for index in self.indexes.get(table, ()))


def read_schema(rows: Rows) -> SourceSchema:
    """From information_schema, of the database that the connection is in."""
    columns: dict[str, dict[str, str]] = {}
    for table, column, type_ in rows(
        "SELECT table_name, column_name, column_type FROM information_schema.columns"
        " WHERE table_schema = DATABASE()"
    ):
        columns.setdefault(str(table).lower(), {})[str(column).lower()] = _text(type_)
    parts: dict[str, dict[str, list[str]]] = {}
    for table, index, column in rows(
        "SELECT table_name, index_name, column_name FROM information_schema.statistics"
        " WHERE table_schema = DATABASE() AND column_name IS NOT NULL"
        " ORDER BY table_name, index_name, seq_in_index"
    ):
        of_table = parts.setdefault(str(table).lower(), {})
        of_table.setdefault(str(index), []).append(str(column).lower())
    return SourceSchema(
        columns=columns,
        indexes={
            table: frozenset(tuple(index) for index in named.values())
            for table, named in parts.items()
        },
    )


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
