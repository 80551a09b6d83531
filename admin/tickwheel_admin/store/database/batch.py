"""Many rows in one statement, fed by one JSON array: the shape of every hot write.

`executemany` costs one round trip a row on MySQL, and a CASE per column grows with the square. One
array parameter that the server unpacks (`JSON_TABLE`, `json_to_recordset`, `json_each`) is the
fastest form on all three. What is the same in every row, as most of a batch is, travels once, as a
parameter beside the array: it is what the text and its unpacking cost that counts.
Callers replace NUL characters in text beforehand: PostgreSQL refuses them, SQLite cuts at them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypedDict, Unpack

import msgspec
import sqlalchemy as sa

_BATCH = "b"  # alias of the unpacked array in the statements
_SAME = "same_"  # prefix of the parameters that stand for a whole column
_MATCHED = "matched"  # the parameter with the values of the first column that is compared
# Of an array; its characters have up to four bytes. MariaDB hangs up on statements of 16 MiB.
_STATEMENT_CHARS = 3 * 1024 * 1024


class Duplicates(TypedDict, total=False):
    """What becomes of rows that are there already; unless it is said, they are an error."""

    ignore_duplicates_of: Sequence[str] | None  # columns of the unique key: left as they are
    replace_duplicates_of: Sequence[str] | None  # columns of the unique key: take the new values


class Condition(TypedDict, total=False):
    """What else must hold of the rows that are updated."""

    where: str  # written with the alias `t` of the table, `b` of the given rows, and parameters
    reads: Sequence[str]  # those of the written columns that `where` reads of `b`
    params: Mapping[str, Any] | None


def insert_rows(
    conn: sa.Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    columns: Sequence[str],
    **duplicates: Unpack[Duplicates],
) -> None:
    """Insert rows; does not return how many were new: MySQL counts duplicates its own way.

    Args:
        columns: names present in the rows; all others get NULL.
    """
    values = [tuple(map(row.get, columns)) for row in rows]
    insert_values(conn, table, values, columns=columns, **duplicates)


def insert_values(
    conn: sa.Connection,
    table: sa.Table,
    rows: Sequence[Sequence[Any]],
    *,
    columns: Sequence[str],
    **duplicates: Unpack[Duplicates],
) -> None:
    """`insert_rows` of values in the order of `columns`."""
    if not rows:
        return
    batch = _Batch(rows, columns, apart={columns[0]})
    statement = _insert_statement(
        conn.dialect.name,
        table,
        batch.columns,
        batch.same,
        tuple(duplicates.get("ignore_duplicates_of") or ()),
        tuple(duplicates.get("replace_duplicates_of") or ()),
    )
    parameters = batch.parameters(conn.dialect.name)
    if not _is_too_long(parameters, rows):
        conn.execute(statement, parameters)
        return
    for half in _halves(rows):
        insert_values(conn, table, half, columns=columns, **duplicates)


def update_rows(
    conn: sa.Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    match: Sequence[str],
    values: Sequence[str],
    **condition: Unpack[Condition],
) -> int:
    """Update the row that equals each given row in its `match` columns; returns rows matched.

    Args:
        match: columns compared; integers only, so that no collation decides.
        values: columns written; absent ones become NULL.
    """
    columns = (*match, *values)
    given = [tuple(map(row.get, columns)) for row in rows]
    return update_values(conn, table, given, match=match, values=values, **condition)


def update_values(
    conn: sa.Connection,
    table: sa.Table,
    rows: Sequence[Sequence[Any]],
    *,
    match: Sequence[str],
    values: Sequence[str],
    **condition: Unpack[Condition],
) -> int:
    """`update_rows` of values in the order of `match` and `values`."""
    if not rows:
        return 0
    batch = _Batch(rows, (*match, *values), apart={*match, *condition.get("reads", ())})
    written, where = batch.columns[len(match) :], condition.get("where", "")
    statement = _update_statement(
        conn.dialect.name, table, tuple(match), written, batch.same, where
    )
    parameters = batch.parameters(conn.dialect.name)
    if conn.dialect.name == "postgresql":
        parameters[_MATCHED] = [row[0] for row in rows]
    if not _is_too_long(parameters, rows):
        parameters |= condition.get("params") or {}
        return conn.execute(statement, parameters).rowcount
    return sum(
        update_values(conn, table, half, match=match, values=values, **condition)
        for half in _halves(rows)
    )


def _is_too_long(parameters: Mapping[str, Any], rows: Sequence[Sequence[Any]]) -> bool:
    """A few hundred large results, which could never be written at once."""
    return len(rows) > 1 and len(parameters["rows"]) > _STATEMENT_CHARS


def _halves(rows: Sequence[Sequence[Any]]) -> tuple[Sequence[Sequence[Any]], ...]:
    middle = len(rows) // 2
    return rows[:middle], rows[middle:]


class _Batch:
    """Rows, parted into columns that differ from row to row and those that do not."""

    def __init__(
        self, rows: Sequence[Sequence[Any]], columns: Sequence[str], *, apart: Collection[str]
    ) -> None:
        """The columns of `apart` travel with each row, whatever they hold."""
        alike = [
            name not in apart and values.count(values[0]) == len(values)
            for name, values in zip(columns, zip(*rows, strict=True), strict=True)
        ]
        self.columns = tuple(n for n, same in zip(columns, alike, strict=True) if not same)
        self.same = tuple(n for n, same in zip(columns, alike, strict=True) if same)
        self._alike = alike
        self._rows = rows

    def parameters(self, dialect: str) -> dict[str, Any]:
        first = (v for v, same in zip(self._rows[0], self._alike, strict=True) if same)
        once = {_SAME + name: _plain(v) for name, v in zip(self.same, first, strict=True)}
        return {"rows": self._json(dialect), **once}

    def _json(self, dialect: str) -> str:
        rows = self._rows
        if self.same:
            picked = [n for n, same in enumerate(self._alike) if not same]
            rows = [[row[n] for n in picked] for row in rows]
        if dialect == "postgresql":  # json_to_recordset takes objects only
            return _encoded([dict(zip(self.columns, row, strict=True)) for row in rows])
        return _encoded(rows)


def _encoded(rows: Sequence[Any]) -> str:
    return msgspec.json.encode(rows).decode()


def _plain(value: Any) -> Any:
    """Drivers take no enums; JSON does."""
    return str(value) if isinstance(value, str) else value


@lru_cache(maxsize=1_000)
def _insert_statement(
    dialect: str,
    table: sa.Table,
    columns: tuple[str, ...],
    same: tuple[str, ...],
    ignore: tuple[str, ...],
    replace: tuple[str, ...],
) -> sa.TextClause:
    quote = _quoter(dialect)
    names = ", ".join(map(quote, columns + same))
    picked = ", ".join(
        [f"{_BATCH}.{quote(c)}" for c in columns] + [_once(dialect, table, c) for c in same]
    )
    sql = (
        f"INSERT INTO {quote(table.name)} ({names}) SELECT {picked}"  # noqa: S608 - names are ours
        f" FROM {_unpacked(dialect, table, columns)} WHERE 1 = 1"
    )
    key = ignore or replace
    if key:
        written = [column for column in columns + same if column not in key]
        if dialect in ("mysql", "mariadb"):
            # Not IGNORE: that would swallow every other error too.
            pairs = (
                [f"{quote(c)} = VALUES({quote(c)})" for c in written]
                if replace
                else [_itself(quote, table, key[0])]
            )
            sql += f" ON DUPLICATE KEY UPDATE {', '.join(pairs)}"
        else:
            sql += f" ON CONFLICT ({', '.join(map(quote, key))}){_part_of(dialect, table, key)}"
            pairs = [f"{quote(c)} = excluded.{quote(c)}" for c in written]
            sql += f" DO UPDATE SET {', '.join(pairs)}" if replace else " DO NOTHING"
    return sa.text(sql)


def _part_of(dialect: str, table: sa.Table, key: tuple[str, ...]) -> str:
    """The condition of a unique index that holds some rows only: a conflict has to name it."""
    for index in table.indexes:
        if index.unique and tuple(index.columns.keys()) == key:
            condition = index.dialect_options[dialect]["where"]
            return "" if condition is None else f" WHERE {condition.text}"
    return ""


def _itself(quote: Any, table: sa.Table, column: str) -> str:
    qualified = f"{quote(table.name)}.{quote(column)}"
    return f"{qualified} = {qualified}"


@lru_cache(maxsize=1_000)
def _update_statement(
    dialect: str,
    table: sa.Table,
    match: tuple[str, ...],
    values: tuple[str, ...],
    same: tuple[str, ...],
    where: str,
) -> sa.TextClause:
    quote = _quoter(dialect)
    source = _unpacked(dialect, table, match + values)
    condition = " AND ".join(f"t.{quote(c)} = {_BATCH}.{quote(c)}" for c in match)
    if where and dialect in ("mysql", "mariadb"):
        condition += f" AND {where}"  # the order of the join is said below
    elif where:
        # Out of an index's reach: rows are found by the array. SQLite would read the array for each
        # row that the index finds; PostgreSQL, every run that was ever in the state, until vacuum.
        condition += f" AND ({where}) IS TRUE"
    if dialect == "postgresql":
        # It takes every JSON array for 100 rows, and for so many would read a whole small table.
        condition += f" AND t.{quote(match[0])} = ANY(CAST(:{_MATCHED} AS bigint[]))"
    name = quote(table.name)
    new = [(c, f"{_BATCH}.{quote(c)}") for c in values]
    new += [(c, _once(dialect, table, c)) for c in same]
    if dialect in ("mysql", "mariadb"):
        pairs = ", ".join(f"t.{quote(c)} = {value}" for c, value in new)
        # The array drives the join; otherwise a wrong estimate could scan the big table. A small
        # one would be scanned all the same, and rows that others have locked be waited for.
        by_key = set(match) == set(table.primary_key.columns.keys())
        hint = " FORCE INDEX (PRIMARY)" if by_key else ""
        return sa.text(
            f"UPDATE {source} STRAIGHT_JOIN {name} AS t{hint} ON {condition} SET {pairs}"  # noqa: S608
        )
    pairs = ", ".join(f"{quote(c)} = {value}" for c, value in new)
    return sa.text(f"UPDATE {name} AS t SET {pairs} FROM {source} WHERE {condition}")  # noqa: S608


def _once(dialect: str, table: sa.Table, column: str) -> str:
    """The parameter that stands for a column which is the same in every row."""
    parameter = f":{_SAME}{column}"
    if dialect != "postgresql":
        return parameter
    return f"CAST({parameter} AS {_type(dialect, table.c[column].type)})"


def _unpacked(dialect: str, table: sa.Table, columns: tuple[str, ...]) -> str:
    """The FROM item that turns the parameter `:rows` into rows with typed columns."""
    quote = _quoter(dialect)
    types = [(column, _type(dialect, table.c[column].type)) for column in columns]
    if dialect == "postgresql":
        typed = ", ".join(f"{quote(c)} {t}" for c, t in types)
        return f"json_to_recordset(CAST(:rows AS json)) AS {_BATCH}({typed})"
    # Arrays by position are half as long as objects with their names, and quicker to escape.
    if dialect == "sqlite":
        picks = ", ".join(
            f"json_extract(value, '$[{n}]') AS {quote(c)}" for n, (c, _) in enumerate(types)
        )
        return f"(SELECT {picks} FROM json_each(:rows)) AS {_BATCH}"  # noqa: S608
    typed = ", ".join(f"{quote(c)} {t} PATH '$[{n}]'" for n, (c, t) in enumerate(types))
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
