"""Rows of a table in the order of its primary key, a batch at a time, with values of Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.backup.contents import columns_of, rows_at_once
from tickwheel_admin.store.database.batch import insert_values

Rows = Sequence[Sequence[Any]]  # values in the order of the table's columns


def key_of(table: sa.Table) -> tuple[sa.Column[Any], ...]:
    """The columns of the primary key."""
    return tuple(table.primary_key.columns)


def read_batches(conn: sa.Connection, table: sa.Table) -> Iterator[Rows]:
    """All rows. Each batch goes on after the last key of the one before."""
    key, at_once = key_of(table), rows_at_once(table)
    places = [columns_of(table).index(column) for column in key]
    statement = sa.select(*columns_of(table)).order_by(*key).limit(at_once)
    after: list[Any] | None = None
    while True:
        chosen = statement if after is None else statement.where(beyond(key, after))
        rows = [tuple(row) for row in conn.execute(chosen)]
        if rows:
            yield rows
        if len(rows) < at_once:
            return
        after = [rows[-1][place] for place in places]


def read_range(
    conn: sa.Connection, table: sa.Table, *, after: Sequence[Any] | None, to: Sequence[Any] | None
) -> list[tuple[Any, ...]]:
    """The rows behind a key, up to another; None: from the first, to the last."""
    key = key_of(table)
    statement = sa.select(*columns_of(table)).order_by(*key)
    if after is not None:
        statement = statement.where(beyond(key, after))
    if to is not None:
        statement = statement.where(sa.not_(beyond(key, to)))
    return [tuple(row) for row in conn.execute(statement)]


def beyond(key: Sequence[sa.Column[Any]], values: Sequence[Any]) -> sa.ColumnElement[bool]:
    """The rows with a greater key. The first condition alone bounds the range of the index."""
    at_least = key[0] >= values[0]
    cases = [
        sa.and_(*(c == v for c, v in zip(key[:n], values[:n], strict=True)), key[n] > values[n])
        for n in range(len(key))
    ]
    return sa.and_(at_least, sa.or_(*cases)) if len(key) > 1 else key[0] > values[0]


def write_rows(conn: sa.Connection, table: sa.Table, rows: Rows) -> None:
    """Insert rows that are not there."""
    insert_values(conn, table, rows, columns=[column.name for column in columns_of(table)])


def count_rows(conn: sa.Connection, table: sa.Table) -> int:
    """How many rows there are."""
    return int(conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def is_empty(conn: sa.Connection, table: sa.Table) -> bool:
    """Whether there is no row."""
    return conn.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first() is None
