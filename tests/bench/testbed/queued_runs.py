"""Runs that are queued directly in the database, to become due all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from msgspec.structs import replace

from tests.bench.testbed.bed import Bed
from tickwheel_admin.domain.runs.run import Origin, Run, RunState
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.ids import take_block
from tickwheel_admin.store.database.tables import run as run_table
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_admin.store.runs.runs import blocking_key_of

HEAD_START_MS = 1_000  # all rows are in the database when the first becomes due
ROWS_PER_INSERT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many runs of one job."""

    job_id: int
    executor_id: int
    runs: int
    is_parallel: bool = True  # else the job's blocking strategy is another one


def queue_runs(bed: Bed, shares: Sequence[Share], *, shard_index: int = 0) -> int:
    """Insert the runs, to become due a moment after the last of them is there; returns when."""
    now = bed.database.read_sync(now_ms)
    # Inserting takes its time, and nothing may start meanwhile: due only once all are in.
    far = now + 3_600_000
    order = in_turn(shares)
    first = bed.database.run_sync(take_block, "run", len(order))
    for start in range(0, len(order), ROWS_PER_INSERT):
        batch = [
            _queued(share, first + number, now=now, due_at=far, shard_index=shard_index)
            for number, share in enumerate(order[start : start + ROWS_PER_INSERT], start)
        ]
        bed.database.run_sync(insert_fires, batch)
    return bed.database.run_sync(_make_due, far)


def in_turn(shares: Sequence[Share]) -> list[Share]:
    """The share of each run, in the order of their ids: each spread evenly over all of them."""
    places = [
        ((number + 0.5) / share.runs, place)
        for place, share in enumerate(shares)
        for number in range(share.runs)
    ]
    return [shares[place] for _, place in sorted(places)]


def _queued(share: Share, run_id: int, *, now: int, due_at: int, shard_index: int) -> Run:
    run = Run(
        id=run_id,
        executor_id=share.executor_id,
        job_id=share.job_id,
        job_revision=1,
        trigger_id=None,
        origin=Origin.API,
        scheduled_at=due_at,
        created_at=now,
        state=RunState.QUEUED,
        due_at=due_at,
        shard_index=shard_index,
    )
    return run if share.is_parallel else replace(run, blocking_key=blocking_key_of(run))


def _make_due(conn: sa.Connection, far: int) -> int:
    due_at = now_ms(conn) + HEAD_START_MS
    conn.execute(
        sa.update(run_table)
        .where(run_table.c.due_at == far, run_table.c.state == RunState.QUEUED.value)
        .values(due_at=due_at, scheduled_at=due_at)
    )
    return due_at
