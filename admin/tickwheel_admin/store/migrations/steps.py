"""Schema operations that may be repeated: a step that was cut off is continued by the next try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

# Binary collation: names compare the same on every database.
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}


def create_table(
    name: str,
    *parts: sa.Column[object] | sa.Constraint,
    indexes: Mapping[str, Sequence[str]] | None = None,
    sparse_indexes: Mapping[str, Sequence[str]] | None = None,
    short_indexes: Mapping[str, tuple[Sequence[str], str]] | None = None,
) -> None:
    """Create what is missing of a table and its indexes (name to columns).

    Sparse ones leave rows out whose first column is NULL, where the database can do that; short
    ones hold only rows for which a condition is true, on PostgreSQL.
    """
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *parts, **_OPTIONS)
    present = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(name)}
    for index, columns in (indexes or {}).items():
        if index not in present:
            op.create_index(index, name, list(columns))
    for index, columns in (sparse_indexes or {}).items():
        if index not in present:
            filled = sa.text(f"{columns[0]} IS NOT NULL")
            op.create_index(
                index, name, list(columns), postgresql_where=filled, sqlite_where=filled
            )
    for index, (columns, condition) in (short_indexes or {}).items():
        if index not in present:
            op.create_index(index, name, list(columns), postgresql_where=sa.text(condition))
