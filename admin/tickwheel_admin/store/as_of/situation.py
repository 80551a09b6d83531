"""Triggers, pauses and nodes of a past instant."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.self_audit.past import TriggerPeriod
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import node, trigger, trigger_period
from tickwheel_admin.store.executors.nodes import SELECTED_NODE, node_from_row
from tickwheel_admin.store.self_audit.past import read_periods

MAX_TRIGGERS = 100  # of a job


def periods_of_job(
    conn: sa.Connection, job_id: int, *, from_at: int, to_at: int
) -> list[TriggerPeriod]:
    """How the triggers of a job stood between two instants, those that are gone too."""
    present = sa.select(trigger.c.id).where(trigger.c.job_id == job_id).limit(MAX_TRIGGERS)
    past = (
        sa.select(trigger_period.c.trigger_id)
        .where(trigger_period.c.job_id == job_id, trigger_period.c.until_at >= from_at)
        .distinct()
        .limit(MAX_TRIGGERS)
    )
    ids = set(conn.execute(present).scalars())
    ids.update(conn.execute(reading(past, trigger_period, "ix_trigger_period_of_job")).scalars())
    if not ids:
        return []
    return [
        each
        for periods in read_periods(conn, ids, begin=from_at).values()
        for each in periods
        if each.since_at <= to_at and each.ends_at > from_at
    ]


def nodes_by_id(conn: sa.Connection, node_ids: Collection[int]) -> dict[int, Node]:
    """Those of the nodes that are still kept: what they offer does not change while they live."""
    rows = conn.execute(SELECTED_NODE.where(node.c.id.in_(sorted(node_ids))))
    return {row.id: node_from_row(row) for row in rows}
