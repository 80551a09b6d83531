"""Rows for every table: extreme numbers, hostile texts, each column once NULL if it may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.backup.contents import columns_of
from tickwheel_admin.store.backup.engines import one_transaction, snapshot
from tickwheel_admin.store.backup.rows import read_batches, write_rows

HOSTILE = (
    "'; DROP TABLE run; --",
    'back\\slash "quotes" \\u0000 \\" ',
    "名字 𝒳 é é 👩‍👩‍👧 \U0010ffff",
    "tab\tline\nreturn\r\x01\x7f%s %(name)s :name {0} `",
)
# What restoring leaves as it is.
SETTLED = {
    "run.state": "succeeded",
    "node.state": "gone",
    "notification.state": "delivered",
    "pool.reserved_run_id": None,
    "pool.reserved_rank": None,
    "pool.reserved_slots": None,
    "pool.reserved_until": None,
    "job_state.lent_run_id": None,
    "job_state.lent_attempt": None,
    "xxl_address.node_id": None,
    "xxl_address.beat_at": None,
}


def sample_rows(table: sa.Table, *, count: int = 5) -> list[tuple[Any, ...]]:
    """Rows in the order of the primary key's numbers."""
    return [
        tuple(_value(table, column, number) for column in columns_of(table))
        for number in range(1, count + 1)
    ]


def _value(table: sa.Table, column: sa.Column[Any], number: int) -> Any:
    name = f"{table.name}.{column.name}"
    if name in SETTLED:
        return SETTLED[name]
    if column.nullable and number == 1 and column.name != "ended_at":
        return None
    kind = column.type
    if isinstance(kind, sa.Boolean):
        return number % 2 == 0
    if isinstance(kind, sa.Integer):
        most = 2**15 - 1 if isinstance(kind, sa.SmallInteger) else 2**31 - 1
        if isinstance(kind, sa.BigInteger) and not column.primary_key:
            most = 2**63 - 1 - 2_000_000
        return number if column.primary_key else (most - number, number, 0, -number)[number % 4]
    if isinstance(kind, sa.Float):
        return number / 8
    text = f"{number}{HOSTILE[number % len(HOSTILE)]}"
    length = getattr(kind, "length", None)
    return text * 40 if length is None else (text * length)[:length].rstrip()


def fill(url: str, tables: Sequence[sa.Table]) -> None:
    """Write the sample."""
    with one_transaction(url) as conn:
        for table in tables:
            write_rows(conn, table, sample_rows(table))


def contents(url: str, tables: Sequence[sa.Table]) -> dict[str, list[tuple[Any, ...]]]:
    """What the tables hold, sorted alike for all databases."""
    with snapshot(url) as conn:
        return {
            table.name: sorted(
                (row for batch in read_batches(conn, table) for row in map(tuple, batch)), key=repr
            )
            for table in tables
        }
