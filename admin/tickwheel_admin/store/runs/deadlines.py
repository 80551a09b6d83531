"""Runs that the sweeper must look at: past their deadline, or on nodes that have ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import CUT_OFF
from tickwheel_admin.store.database.batch import update_rows
from tickwheel_admin.store.database.run_conditions import IS_LIVE, IS_QUEUED
from tickwheel_admin.store.database.tables import run


@dataclass(frozen=True, slots=True, kw_only=True)
class PastDeadline:
    """A live run that the sweeper must look at."""

    run_id: int
    node_id: int | None


def runs_past_deadline(conn: sa.Connection, *, now: int, limit: int) -> list[PastDeadline]:
    """Live runs whose deadline has passed, longest ago first; read from the index alone."""
    rows = conn.execute(
        sa.select(run.c.id, run.c.node_id)
        .where(IS_LIVE, run.c.deadline_at <= now)
        .order_by(run.c.deadline_at)
        .limit(limit)
    )
    return [PastDeadline(run_id=row.id, node_id=row.node_id) for row in rows]


def queued_past_deadline(conn: sa.Connection, *, now: int, limit: int) -> list[int]:
    """Queued runs that were to start by now, longest ago first; read from the index alone."""
    rows = conn.execute(
        sa.select(run.c.id)
        .where(IS_QUEUED, run.c.deadline_at <= now)
        .order_by(run.c.deadline_at)
        .limit(limit)
    )
    return list(rows.scalars())


def live_runs_of_nodes(
    conn: sa.Connection, node_ids: Iterable[int], *, limit: int, now: int | None = None
) -> list[int]:
    """Ids of dispatched and running runs on these nodes; reads the live part of an index.

    Args:
        now: leave those out that keep their place beyond it.
    """
    wanted = sa.and_(IS_LIVE, run.c.node_id.in_(sorted(node_ids)))
    if now is not None:
        held = sa.and_(run.c.reason.is_not(None), run.c.reason == CUT_OFF, run.c.deadline_at > now)
        wanted = sa.and_(wanted, sa.or_(run.c.reason.is_(None), sa.not_(held)))
    return list(conn.execute(sa.select(run.c.id).where(wanted).limit(limit)).scalars())


def ask_about_held_runs(
    conn: sa.Connection, named: Mapping[int, Collection[int]], *, now: int
) -> None:
    """Nodes are back and do not name runs that were held for them: they are asked at once.

    Args:
        named: by node, the runs that it says it holds.
    """
    if not named:
        return
    held = sa.and_(IS_LIVE, run.c.node_id.in_(sorted(named)), run.c.reason == CUT_OFF)
    rows = conn.execute(sa.select(run.c.id, run.c.node_id).where(held)).all()
    unnamed = sorted(row.id for row in rows if row.id not in named[row.node_id])
    if unnamed:
        conn.execute(
            sa.update(run).where(held, run.c.id.in_(unnamed)).values(reason=None, deadline_at=now)
        )


def set_deadlines(conn: sa.Connection, deadlines: Sequence[tuple[int, int]]) -> None:
    """Say when the sweeper looks next at each (run id, instant); the runs must be locked."""
    update_rows(
        conn,
        run,
        [{"id": run_id, "deadline_at": deadline_at} for run_id, deadline_at in deadlines],
        match=("id",),
        values=("deadline_at",),
    )
