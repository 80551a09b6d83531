"""Schema operations that may be repeated: a step that was cut off is continued by the next try.

Admins of the version before go on meanwhile, so a step only adds, and holds up no writer for long.
"""

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
    sparse_keys: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Create what is missing of a table and its indexes (name to columns).

    Sparse ones leave rows out whose first column is NULL, where the database can do that; short
    ones hold only rows for which a condition is true, on PostgreSQL. Sparse keys are unique, and
    leave rows out whose last column is NULL.
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
    for index, columns in (sparse_keys or {}).items():
        if index not in present:
            filled = sa.text(f"{columns[-1]} IS NOT NULL")
            op.create_index(
                index,
                name,
                list(columns),
                unique=True,
                postgresql_where=filled,
                sqlite_where=filled,
            )
    for index, (columns, condition) in (short_indexes or {}).items():
        if index not in present:
            op.create_index(index, name, list(columns), postgresql_where=sa.text(condition))


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column that the version before need not know: NULL, or with a default of the server.

    No row is rewritten: the databases keep the default beside the table.

    Raises:
        ValueError: the version before could insert no row.
    """
    if not column.nullable and column.server_default is None:
        raise ValueError(f"{table}.{column.name} needs a server_default, or to be nullable")
    present = {each["name"] for each in sa.inspect(op.get_bind()).get_columns(table)}
    if column.name not in present:
        op.add_column(table, column)


def add_index(name: str, table: str, columns: Sequence[str]) -> None:
    """Build an index while others write to the table, however large it is.

    PostgreSQL does that outside of any transaction: what the step did before is committed.
    """
    if op.get_bind().dialect.name != "postgresql":
        present = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
        if name not in present:  # MariaDB builds it beside its writers by itself
            op.create_index(name, table, list(columns))
        return
    # One that was cut off stays behind: nothing reads it, and everybody has to keep it up.
    is_valid = op.get_bind().scalar(
        sa.text("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)"),
        {"name": name},
    )
    if is_valid:
        return
    with op.get_context().autocommit_block():
        # It waits for transactions under way, and holds up nobody while it does.
        limit = op.get_bind().scalar(sa.text("SHOW lock_timeout"))
        op.execute("SET lock_timeout = 0")
        if is_valid is not None:
            op.drop_index(name, table, postgresql_concurrently=True)
        op.create_index(name, table, list(columns), postgresql_concurrently=True)
        op.execute(f"SET lock_timeout = '{limit}'")
