"""The shards of whole fires: which are open, how many are how far."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.rows import LIVE_VALUES, SELECTED_RUN, run_from_selected
from tickwheel_admin.store.runs.runs import set_progress


def lock_open_shards(conn: sa.Connection, fire_ids: Iterable[int], *, limit: int) -> list[Run]:
    """Shards of these fires that wait, or run and were not asked to end; locked in ascending
    order of id.
    """
    waits = unindexed(run.c.state) == RunState.QUEUED.value
    runs = sa.and_(unindexed(run.c.state).in_(LIVE_VALUES), run.c.cancel_requested_at.is_(None))
    rows = conn.execute(
        sa.select(*SELECTED_RUN)
        .where(run.c.fire_id.in_(sorted(fire_ids)), sa.or_(waits, runs))
        .order_by(run.c.id)
        .limit(limit)
        .with_for_update()
    )
    return [run_from_selected(row) for row in rows]


def count_shards(
    conn: sa.Connection, fire_ids: Iterable[int]
) -> defaultdict[int, Counter[RunState]]:
    """How many shards of each fire are in each state."""
    found: defaultdict[int, Counter[RunState]] = defaultdict(Counter)
    rows = conn.execute(
        sa.select(run.c.fire_id, run.c.state, sa.func.count())
        .where(run.c.fire_id.in_(sorted(fire_ids)))
        .group_by(run.c.fire_id, run.c.state)
    )
    for fire_id, state, count in rows:
        found[fire_id][RunState(state)] = count
    return found


def set_fire_progress(conn: sa.Connection, counts: Sequence[tuple[int, int, int]]) -> None:
    """Keep how far whole fires are: (run id, ended shards, all shards); they must be locked."""
    set_progress(
        conn,
        [(run_id, ended / total, f"{ended}/{total}") for run_id, ended, total in sorted(counts)],
    )
