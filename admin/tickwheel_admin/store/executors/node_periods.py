"""How nodes were before they changed, went or died: the time machine reads it.

A row is written when a node comes to another state; heartbeats and reconnections write none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.as_of.nodes import NodePeriod, PeriodEnd
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import node, node_period

_KEPT = ("node_id", "from_at", "until_at", "executor_id", "name", "slots", "draining", "cordoned")
PERIOD_COLUMNS = (
    node.c.id,
    node.c.executor_id,
    node.c.name,
    node.c.state,
    node.c.slots,
    node.c.draining,
    node.c.cordoned,
    node.c.since_at,
)
MAX_PERIODS = 20_000  # that one question reads


def lock_periods(conn: sa.Connection, node_ids: Iterable[int]) -> Sequence[Any]:
    """Lock nodes, and read how they stand; whoever changes them hands this to `keep_periods`."""
    return conn.execute(
        sa.select(*PERIOD_COLUMNS)
        .where(node.c.id.in_(sorted(node_ids)))
        .order_by(node.c.id)
        .with_for_update()
    ).all()


def keep_periods(conn: sa.Connection, rows: Iterable[Any], *, now: int, end: PeriodEnd) -> None:
    """Keep how live nodes stood until `now`. The caller changes them, and sets their `since_at`.

    Args:
        rows: with PERIOD_COLUMNS, locked.
    """
    kept = [
        {
            "node_id": row.id,
            "from_at": row.since_at,
            "until_at": now,
            "executor_id": row.executor_id,
            "name": row.name,
            "slots": row.slots,
            "draining": bool(row.draining),
            "cordoned": bool(row.cordoned),
            "end": end.value,
        }
        for row in rows
        # A clock that was set back leaves a gap, and nothing that ends before it begins.
        if row.state == NodeState.LIVE.value and row.since_at < now
    ]
    insert_rows(
        conn,
        node_period,
        kept,
        columns=(*_KEPT, "end"),
        replace_duplicates_of=("node_id", "from_at"),
    )


def change_node(conn: sa.Connection, node_id: int, **values: Any) -> None:
    """Change a node; how it was before is kept, if the change matters to the time machine."""
    rows = lock_periods(conn, [node_id])
    changed = [
        row
        for row in rows
        if any(name in row._mapping and row._mapping[name] != new for name, new in values.items())
    ]
    if changed:
        now = now_ms(conn)
        keep_periods(conn, changed, now=now, end=PeriodEnd.CHANGED)
        values["since_at"] = now
    conn.execute(sa.update(node).where(node.c.id == node_id).values(values))


def read_node_periods(
    conn: sa.Connection, *, after: int, until: int, executors: Collection[int] | None
) -> list[NodePeriod]:
    """Periods that touch a time: those that ended after its begin and began up to its end.

    Args:
        executors: None: all.
    """
    past = sa.select(node_period).where(
        node_period.c.until_at > after, node_period.c.from_at <= until
    )
    present = sa.select(*PERIOD_COLUMNS).where(
        node.c.state == NodeState.LIVE.value, node.c.since_at <= until
    )
    if executors is not None:
        past = past.where(node_period.c.executor_id.in_(sorted(executors)))
        present = present.where(node.c.executor_id.in_(sorted(executors)))
    past = reading(past.order_by(node_period.c.until_at), node_period, "ix_node_period_over")
    # First those that last: one that ends meanwhile is read twice, and not missed.
    lasting = {
        row.id: NodePeriod(
            node_id=row.id,
            executor_id=row.executor_id,
            name=row.name,
            from_at=row.since_at,
            until_at=None,
            slots=row.slots,
            draining=bool(row.draining),
            cordoned=bool(row.cordoned),
        )
        for row in conn.execute(present.limit(MAX_PERIODS))
    }
    ended = [
        NodePeriod(
            node_id=row.node_id,
            executor_id=row.executor_id,
            name=row.name,
            from_at=row.from_at,
            until_at=row.until_at,
            slots=row.slots,
            draining=bool(row.draining),
            cordoned=bool(row.cordoned),
            end=PeriodEnd(row.end),
        )
        for row in conn.execute(past.limit(MAX_PERIODS))
    ]
    for each in ended:
        present_one = lasting.get(each.node_id)
        if present_one is not None and present_one.from_at == each.from_at:
            del lasting[each.node_id]
    return [*ended, *lasting.values()]
