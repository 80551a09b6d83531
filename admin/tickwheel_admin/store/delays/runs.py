"""Runs that waited or held slots at some time, newest first, in bounded pages without locks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.delays.history import NO_NODE_ID, Hold
from tickwheel_admin.domain.runs.run import LIVE, Origin, RunState
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import IS_LIVE, has_state
from tickwheel_admin.store.database.scans import beyond
from tickwheel_admin.store.database.tables import ALIVE, job, pool, run, run_attempt

MAX_LIVE = 10_000  # live runs of an executor that are read, whenever they were due
MAX_POOL_JOBS = 50  # jobs of other executors with a pool of ours; and of each so many runs:
MAX_POOL_RUNS = 500

_COLUMNS = (
    run.c.id, run.c.executor_id, run.c.job_id, run.c.job_revision, run.c.origin, run.c.state,
    run.c.scheduled_at, run.c.jitter_ms, run.c.created_at, run.c.tries, run.c.fire_id,
    run.c.shard_index, run.c.pinned_node_id, run.c.pool_id, run.c.node_id, run.c.dispatched_at,
    run.c.started_at, run.c.ended_at, run.c.claim_token.is_not(None).label("has_attempt"),
)  # fmt: skip
_STILL = has_state(RunState.QUEUED, *LIVE)


class RunEntry(NamedTuple):
    """A run in the index of all runs."""

    scheduled_at: int
    id: int
    executor_id: int


class WaitedRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run of the ledger, with its attempts."""

    id: int
    executor_id: int
    job_id: int
    job_revision: int
    scheduled_at: int
    due_at: int  # when it was due first
    created_at: int
    dispatched_at: int | None  # of its first try
    started_at: int | None
    is_measured: bool  # its start delay counts
    fire_id: int | None
    shard_index: int
    pinned_node_id: int | None
    pool_id: int | None
    holds: tuple[Hold, ...]


def page_run_entries(
    conn: sa.Connection, *, from_at: int, to_at: int, before: RunEntry | None, limit: int
) -> list[RunEntry]:
    """Runs of all executors that were scheduled in some time, newest first; reads an index only."""
    wanted = (
        sa.select(run.c.scheduled_at, run.c.id, run.c.executor_id)
        .where(run.c.scheduled_at >= from_at, run.c.scheduled_at < to_at)
        .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
        .limit(limit)
    )
    if before is not None:
        place = beyond(before.scheduled_at, before.id, of=run.c.scheduled_at, newer=False)
        wanted = wanted.where(*place)
    rows = conn.execute(reading(wanted, run, "ix_run_recent"))
    return [RunEntry(*row) for row in rows]


_OF_IDS: sa.Select[Any] = sa.select(*_COLUMNS).where(
    among(run.c.id, "ids"),
    sa.or_(run.c.ended_at > sa.bindparam("from_at", type_=sa.BigInteger()), _STILL),
)


def runs_overlapping(conn: sa.Connection, ids: Collection[int], *, from_at: int) -> list[WaitedRun]:
    """Those of some runs that had not ended at an instant."""
    if not ids:
        return []
    return _with_attempts(
        conn, conn.execute(_OF_IDS, {"ids": sorted(ids), "from_at": from_at}).all()
    )


def live_runs_of(conn: sa.Connection, executor_id: int) -> list[WaitedRun]:
    """The live runs of an executor, however long ago they were due."""
    wanted = sa.select(*_COLUMNS).where(run.c.executor_id == executor_id, IS_LIVE).limit(MAX_LIVE)
    return _with_attempts(conn, conn.execute(reading(wanted, run, "ix_run_to_sweep")).all())


def run_waited(conn: sa.Connection, run_id: int) -> WaitedRun | None:
    """One run."""
    wanted: sa.Select[Any] = sa.select(*_COLUMNS).where(run.c.id == run_id)
    return next(iter(_with_attempts(conn, conn.execute(wanted).all())), None)


def pool_slots(conn: sa.Connection, pool_ids: Collection[int]) -> dict[int, tuple[int, int]]:
    """Slots and executor of pools by id; of the installation is executor 0."""
    if not pool_ids:
        return {}
    rows = conn.execute(
        sa.select(pool.c.id, pool.c.slots, pool.c.executor_id).where(
            pool.c.id.in_(sorted(pool_ids)), pool.c.deleted_at == ALIVE
        )
    )
    return {row.id: (row.slots, row.executor_id) for row in rows}


def jobs_of_pools_elsewhere(
    conn: sa.Connection, pool_ids: Collection[int], *, executor_id: int
) -> list[int]:
    """Jobs of other executors that name some pools; at most MAX_POOL_JOBS."""
    if not pool_ids:
        return []
    wanted = (
        sa.select(job.c.id)
        .where(
            job.c.pool_id.in_(sorted(pool_ids)),
            job.c.deleted_at == ALIVE,
            unindexed(job.c.executor_id) != executor_id,
        )
        .order_by(job.c.id)
        .limit(MAX_POOL_JOBS)
    )
    return list(conn.execute(reading(wanted, job, "ix_job_of_pool")).scalars())


def pooled_runs_of_jobs(
    conn: sa.Connection,
    job_ids: Sequence[int],
    *,
    scheduled_from: int,
    from_at: int,
    to_at: int,
) -> list[WaitedRun]:
    """Of each job the newest runs that take slots of a pool, and had not ended at an instant."""
    found: list[WaitedRun] = []
    for job_id in job_ids:
        rows = conn.execute(_of_job(job_id, scheduled_from, to_at)).all()
        kept = [
            row for row in rows if row.pool_id and (row.ended_at is None or row.ended_at > from_at)
        ]
        found += _with_attempts(conn, kept)
    return found


def _of_job(job_id: int, from_at: int, to_at: int) -> sa.Select[Any]:
    wanted = (
        sa.select(*_COLUMNS)
        .where(run.c.job_id == job_id, run.c.scheduled_at >= from_at, run.c.scheduled_at < to_at)
        .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
        .limit(MAX_POOL_RUNS)
    )
    return reading(wanted, run, "ix_run_of_job")


class _Try(NamedTuple):
    node_id: int | None
    dispatched_at: int | None
    started_at: int | None
    ended_at: int | None


_ATTEMPTS = (
    sa.select(
        run_attempt.c.run_id, run_attempt.c.node_id, run_attempt.c.dispatched_at,
        run_attempt.c.started_at, run_attempt.c.ended_at,
    )
    .where(among(run_attempt.c.run_id, "ids"))
    .order_by(run_attempt.c.run_id, run_attempt.c.attempt)
)  # fmt: skip


def _with_attempts(conn: sa.Connection, rows: Sequence[sa.Row[Any]]) -> list[WaitedRun]:
    tried = [row.id for row in rows if row.tries > 1 or (row.tries and row.state == "queued")]
    tries: defaultdict[int, list[_Try]] = defaultdict(list)
    if tried:
        for row in conn.execute(_ATTEMPTS, {"ids": sorted(tried)}):
            tries[row.run_id].append(
                _Try(row.node_id, row.dispatched_at, row.started_at, row.ended_at)
            )
    return [_waited(row, tries.get(row.id, [])) for row in rows]


def _waited(row: sa.Row[Any], archived: list[_Try]) -> WaitedRun:
    state, origin = RunState(row.state), Origin(row.origin)
    # What a queued run was handed back from is nothing that it holds.
    has_attempt = state is not RunState.QUEUED and (row.has_attempt or row.shard_index < 0)
    last = _Try(row.node_id, row.dispatched_at, row.started_at, row.ended_at)
    tries = [*archived, last] if has_attempt else archived
    first = tries[0] if tries else None
    started_at = None if first is None else first.started_at
    waits = state in (RunState.QUEUED, RunState.DISPATCHED) and row.tries == 0
    return WaitedRun(
        id=row.id,
        executor_id=row.executor_id,
        job_id=row.job_id,
        job_revision=row.job_revision,
        scheduled_at=row.scheduled_at,
        due_at=row.created_at
        if origin is Origin.MISFIRE
        else row.scheduled_at + (row.jitter_ms or 0),
        created_at=row.created_at,
        dispatched_at=None if first is None else first.dispatched_at,
        started_at=started_at,
        is_measured=(waits or started_at is not None)
        and row.shard_index != -1
        and origin not in (Origin.TRY, Origin.BACKFILL),
        fire_id=row.fire_id,
        shard_index=row.shard_index,
        pinned_node_id=row.pinned_node_id,
        pool_id=row.pool_id or None,
        holds=tuple(_holds(tries, is_live=state in LIVE)),
    )


def _holds(tries: Sequence[_Try], *, is_live: bool) -> Iterable[Hold]:
    for number, each in enumerate(tries, 1):
        if each.dispatched_at is None:
            continue
        goes_on = is_live and number == len(tries)
        if goes_on or each.ended_at is not None:
            yield Hold(
                each.node_id or NO_NODE_ID, each.dispatched_at, None if goes_on else each.ended_at
            )
