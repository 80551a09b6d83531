"""Compares a database as it is with the tables as they should be."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

OLDEST = {
    "sqlite": (3, 38),  # JSON functions built in
    "mysql": (8, 0),  # SKIP LOCKED, JSON_TABLE
    "mariadb": (10, 6),  # the same
    "postgresql": (13,),
}


def server_problem(conn: sa.Connection) -> str | None:
    """A sentence when the server is older than what the store's statements need."""
    dialect = conn.dialect
    kind = "mariadb" if getattr(dialect, "is_mariadb", False) else dialect.name
    version = tuple(n for n in dialect.server_version_info or () if isinstance(n, int))
    oldest = OLDEST[kind]
    if version >= oldest:
        return None
    return f"{kind} {_dotted(version)} is too old: Tickwheel needs {_dotted(oldest)} or newer."


def differences(conn: sa.Connection, metadata: sa.MetaData) -> list[str]:
    """Every table, column, index or unique key that is missing or changed.

    Tables and indexes that were added by hand do no harm, so they are not reported.
    """
    context = MigrationContext.configure(conn, opts={"compare_type": True})
    found: list[str] = []
    for change in compare_metadata(context, metadata):
        # A changed column comes as a list of single changes, everything else as one tuple.
        for single in change if isinstance(change, list) else [change]:
            if single[0] not in ("remove_table", "remove_index"):
                found.append(_sentence(single))
    return found


def _sentence(change: tuple[object, ...]) -> str:
    kind, *parts = change
    match parts:
        case [sa.Table() as table]:
            what = f"table {table.name}"
        case [_, str() as table_name, sa.Column() as column]:
            what = f"column {table_name}.{column.name}"
        case [_, str() as table_name, str() as column_name, *_]:
            what = f"column {table_name}.{column_name}"
        case [sa.Index() as index]:
            what = f"index {index.name} of {_table_of(index)}"
        case [sa.UniqueConstraint() as unique]:
            what = f"unique key {unique.name} of {unique.table.name}"
        case _:
            what = str(parts)
    match str(kind).partition("_")[0]:
        case "add":
            return f"The {what} is missing."
        case "remove":
            return f"There is an unexpected {what}."
        case _:
            return f"The {what} differs ({kind})."


def _table_of(index: sa.Index) -> str:
    return index.table.name if index.table is not None else "?"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
