"""Many rows in one statement, fed by one JSON array: the shape of every hot write.

`executemany` costs one round trip a row on MySQL, and a CASE per column grows with the square. One
array parameter that the server unpacks (`JSON_TABLE`, `json_to_recordset`, `json_each`) is the
fastest form on all three. Values that are None are left out of the JSON and read back as NULL.
Callers replace NUL characters in text beforehand: PostgreSQL refuses them, SQLite cuts at them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

_BATCH = "b"  # alias of the unpacked array in the statements


def insert_rows(
    conn: sa.Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    columns: Sequence[str],
    ignore_duplicates_of: Sequence[str] | None = None,
    replace_duplicates_of: Sequence[str] | None = None,
) -> None:
    """Insert rows; how many were new is not told, because MySQL counts duplicates its own way.

    Args:
        columns: names present in the rows; all others get NULL.
        ignore_duplicates_of: columns of the unique key whose duplicates are left as they are.
        replace_duplicates_of: columns of the unique key whose duplicates take the new values.
    """
    if not rows:
        return
    statement = _insert_statement(
        conn.dialect.name,
        table,
        tuple(columns),
        tuple(ignore_duplicates_of or ()),
        tuple(replace_duplicates_of or ()),
    )
    conn.execute(statement, {"rows": _json(rows)})


def update_rows(
    conn: sa.Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    match: Sequence[str],
    values: Sequence[str],
    where: str = "",
    params: Mapping[str, Any] | None = None,
) -> int:
    """Update the row that equals each given row in its `match` columns; returns rows matched.

    Args:
        match: columns compared; integers only, so that no collation decides.
        values: columns written.
        where: further condition on the table, written with its alias `t`, the given rows' alias `b`
            and named parameters.
    """
    if not rows:
        return 0
    statement = _update_statement(conn.dialect.name, table, tuple(match), tuple(values), where)
    return conn.execute(statement, {"rows": _json(rows), **(params or {})}).rowcount


def _json(rows: Sequence[Mapping[str, Any]]) -> str:
    return msgspec.json.encode(
        [{name: value for name, value in row.items() if value is not None} for row in rows]
    ).decode()


@lru_cache(maxsize=256)
def _insert_statement(
    dialect: str,
    table: sa.Table,
    columns: tuple[str, ...],
    ignore: tuple[str, ...],
    replace: tuple[str, ...],
) -> sa.TextClause:
    quote = _quoter(dialect)
    names = ", ".join(quote(column) for column in columns)
    picked = ", ".join(f"{_BATCH}.{quote(column)}" for column in columns)
    sql = (
        f"INSERT INTO {quote(table.name)} ({names}) SELECT {picked}"  # noqa: S608 - names are ours
        f" FROM {_unpacked(dialect, table, columns)} WHERE 1 = 1"
    )
    key = ignore or replace
    if key:
        written = [column for column in columns if column not in key] if replace else [key[0]]
        if dialect in ("mysql", "mariadb"):
            # Not IGNORE: that would swallow every other error too.
            pairs = (
                f"{quote(c)} = VALUES({quote(c)})" if replace else f"{_same(quote, table, c)}"
                for c in written
            )
            sql += f" ON DUPLICATE KEY UPDATE {', '.join(pairs)}"
        elif replace:
            pairs = (f"{quote(c)} = excluded.{quote(c)}" for c in written)
            sql += f" ON CONFLICT ({', '.join(map(quote, key))}) DO UPDATE SET {', '.join(pairs)}"
        else:
            sql += f" ON CONFLICT ({', '.join(map(quote, key))}) DO NOTHING"
    return sa.text(sql)


def _same(quote: Any, table: sa.Table, column: str) -> str:
    qualified = f"{quote(table.name)}.{quote(column)}"
    return f"{qualified} = {qualified}"


@lru_cache(maxsize=256)
def _update_statement(
    dialect: str, table: sa.Table, match: tuple[str, ...], values: tuple[str, ...], where: str
) -> sa.TextClause:
    quote = _quoter(dialect)
    source = _unpacked(dialect, table, match + values)
    condition = " AND ".join(f"t.{quote(c)} = {_BATCH}.{quote(c)}" for c in match)
    if where and dialect == "sqlite":
        # Out of an index's reach: SQLite would find the rows by it and read the array for each.
        condition += f" AND ({where}) IS TRUE"
    elif where:
        condition += f" AND {where}"
    name = quote(table.name)
    if dialect in ("mysql", "mariadb"):
        pairs = ", ".join(f"t.{quote(c)} = {_BATCH}.{quote(c)}" for c in values)
        return sa.text(
            # The array drives the join; otherwise a wrong estimate could scan the big table.
            f"UPDATE {source} STRAIGHT_JOIN {name} AS t ON {condition} SET {pairs}"  # noqa: S608
        )
    pairs = ", ".join(f"{quote(c)} = {_BATCH}.{quote(c)}" for c in values)
    return sa.text(f"UPDATE {name} AS t SET {pairs} FROM {source} WHERE {condition}")  # noqa: S608


def _unpacked(dialect: str, table: sa.Table, columns: tuple[str, ...]) -> str:
    """The FROM item that turns the parameter `:rows` into rows with typed columns."""
    quote = _quoter(dialect)
    types = [(column, _type(dialect, table.c[column].type)) for column in columns]
    if dialect == "sqlite":
        picks = ", ".join(f"json_extract(value, '$.{c}') AS {quote(c)}" for c, _ in types)
        return f"(SELECT {picks} FROM json_each(:rows)) AS {_BATCH}"  # noqa: S608
    if dialect == "postgresql":
        typed = ", ".join(f"{quote(c)} {t}" for c, t in types)
        return f"json_to_recordset(CAST(:rows AS json)) AS {_BATCH}({typed})"
    typed = ", ".join(f"{quote(c)} {t} PATH '$.{c}'" for c, t in types)
    return f"JSON_TABLE(:rows, '$[*]' COLUMNS({typed})) AS {_BATCH}"


def _type(dialect: str, column: sa.types.TypeEngine[Any]) -> str:
    # Wide types on purpose: JSON_TABLE cuts and clamps silently, the target column does not.
    if isinstance(column, sa.Boolean):
        return "boolean" if dialect == "postgresql" else "BIGINT"
    if isinstance(column, sa.Integer):
        return "BIGINT"
    if isinstance(column, sa.Float):
        return "double precision"
    return "text" if dialect == "postgresql" else "LONGTEXT"


def _quoter(dialect: str) -> Any:
    mark = "`" if dialect in ("mysql", "mariadb") else '"'
    return lambda name: f"{mark}{name}{mark}"
