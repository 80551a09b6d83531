"""Runs of jobs that are not parallel, live or waiting, by the index `ix_run_blocking`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import PARKED_AT, Run
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.rows import SELECTED_RUN, run_from_selected

PER_STATEMENT = 50  # jobs or lanes asked about at once


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingLane:
    """What runs wait for: their job, or one shard of a job that is cut into shards."""

    job_id: int
    shard_index: int | None = None
    node_id: int | None = None


def lane_of(each: Run, *, broadcast: bool) -> BlockingLane:
    """The lane of a run; shards of a broadcast have one for each node."""
    if each.fire_id is None:
        return BlockingLane(job_id=each.job_id)
    if broadcast and each.pinned_node_id is not None:
        return BlockingLane(job_id=each.job_id, node_id=each.pinned_node_id)
    return BlockingLane(job_id=each.job_id, shard_index=each.shard_index)


def live_keys(job_ids: Iterable[int]) -> list[int]:
    """Values of `run.blocking_key` of the jobs' live runs."""
    return sorted(job_id * 2 + 1 for job_id in job_ids)


_COUNT_LIVE = (
    sa.select(run.c.blocking_key, sa.func.count())
    .where(among(run.c.blocking_key, "keys"))
    .group_by(run.c.blocking_key)
)
_LIVE = (
    sa.select(*SELECTED_RUN)
    .where(among(run.c.blocking_key, "keys"))
    .order_by(run.c.scheduled_at, run.c.id)
)
_LOCK_LIVE = _LIVE.with_for_update(skip_locked=True)


def count_live(conn: sa.Connection, job_ids: Iterable[int]) -> dict[int, int]:
    """How many runs of these jobs are live, read without a lock."""
    rows = conn.execute(_COUNT_LIVE, {"keys": live_keys(job_ids)})
    return {key // 2: count for key, count in rows}


def live_before(
    conn: sa.Connection, waiting: Sequence[Run], *, broadcasts: Collection[int]
) -> dict[int, list[int]]:
    """The live runs that stand before each waiting one: ids, oldest first; read without a lock.

    Args:
        broadcasts: jobs that are broadcast.
    """
    if not waiting:
        return {}
    rows = conn.execute(_LIVE, {"keys": live_keys({each.job_id for each in waiting})})
    live: defaultdict[BlockingLane, list[int]] = defaultdict(list)
    for each in map(run_from_selected, rows):
        live[lane_of(each, broadcast=each.job_id in broadcasts)].append(each.id)
    return {each.id: live[lane_of(each, broadcast=each.job_id in broadcasts)] for each in waiting}


def lock_live(conn: sa.Connection, job_ids: Iterable[int]) -> list[Run]:
    """The live runs of these jobs that no other transaction has locked, oldest first."""
    rows = conn.execute(_LOCK_LIVE, {"keys": live_keys(job_ids)})
    return [run_from_selected(row) for row in rows]


def waiting_runs(conn: sa.Connection, limits: Mapping[int, int]) -> list[Run]:
    """The oldest queued runs of each job, at most as many as its limit; read without a lock."""
    return _each(conn, [_waiting(job_id).limit(limit) for job_id, limit in limits.items()])


def lock_parked(
    conn: sa.Connection, lanes: Mapping[BlockingLane, int], *, newest: bool
) -> list[Run]:
    """Parked runs of each lane, at most as many as said; those that others hold are left out.

    Args:
        newest: the newest of each lane, instead of the oldest.
    """
    selects = [_parked_ids(lane, newest=newest).limit(count) for lane, count in lanes.items()]
    return lock_parked_runs(conn, [row.id for row in _rows_of_each(conn, selects)])


def lock_parked_runs(conn: sa.Connection, ids: Sequence[int]) -> list[Run]:
    """Those of the runs that are parked and not locked by others, by ascending id."""
    if not ids:
        return []
    rows = conn.execute(
        sa.select(*SELECTED_RUN)
        .where(run.c.id.in_(ids), run.c.due_at == PARKED_AT)
        .order_by(run.c.id)
        .with_for_update(skip_locked=True)
    )
    return [each for each in map(run_from_selected, rows) if each.is_parked]


def stalled_jobs(conn: sa.Connection) -> list[int]:
    """Jobs with waiting runs and no live one; reads only the keys of `ix_run_blocking`."""
    keys = set(
        conn.execute(
            sa.select(run.c.blocking_key).where(run.c.blocking_key.is_not(None)).distinct()
        ).scalars()
    )
    return sorted(key // 2 for key in keys if key % 2 == 0 and key + 1 not in keys)


def _waiting(job_id: int) -> sa.Select[Any]:
    return reading(
        sa.select(*SELECTED_RUN)
        .where(run.c.blocking_key == job_id * 2)
        .order_by(run.c.scheduled_at, run.c.id),
        run,
        "ix_run_blocking",
    )


def _parked_ids(lane: BlockingLane, *, newest: bool) -> sa.Select[Any]:
    conditions = [run.c.blocking_key == lane.job_id * 2, run.c.due_at == PARKED_AT]
    if lane.shard_index is not None:
        conditions.append(run.c.shard_index == lane.shard_index)
    if lane.node_id is not None:
        conditions.append(run.c.pinned_node_id == lane.node_id)
    order = (run.c.scheduled_at, run.c.id)
    return reading(
        sa.select(run.c.id)
        .where(*conditions)
        .order_by(*(column.desc() for column in order) if newest else order),
        run,
        "ix_run_blocking",
    )


def _each(conn: sa.Connection, selects: Sequence[sa.Select[Any]]) -> list[Run]:
    return [run_from_selected(row) for row in _rows_of_each(conn, selects)]


def _rows_of_each(conn: sa.Connection, selects: Sequence[sa.Select[Any]]) -> list[sa.Row[Any]]:
    """The rows of many small selects, a few statements in all; each keeps its own limit."""
    rows: list[sa.Row[Any]] = []
    if len(selects) == 1:
        return list(conn.execute(selects[0]).all())
    for start in range(0, len(selects), PER_STATEMENT):
        # A limit inside of a union needs a sub-select on SQLite.
        parts = [
            sa.select(part.subquery(f"part_{number}"))
            for number, part in enumerate(selects[start : start + PER_STATEMENT])
        ]
        rows += conn.execute(sa.union_all(*parts)).all()
    return rows
