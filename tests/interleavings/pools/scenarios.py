"""Scenarios of pools: claims for two executors, and ends, meet at a pool's slots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from tests.admin.kit.engine import FakeSession
from tests.interleavings.props import EXECUTOR, StagedJob, is_live
from tests.interleavings.stage import PERSON, Stage, result_of
from tickwheel_admin.domain.pools.pool import PoolShare
from tickwheel_admin.domain.runs.run import FINAL
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.pools.slots import add_uses

OTHER = EXECUTOR + 1
POOL = 1


def _insert(conn: sa.Connection, rows: Sequence[tuple[sa.Table, dict[str, Any]]]) -> None:
    for table, values in rows:
        conn.execute(sa.insert(table).values(values))


def _prepare(stage: Stage, *, slots: int) -> list[StagedJob]:
    """A pool of the installation, another executor, and jobs that take one slot, and two."""
    at = stage.began_at
    executor = {"id": OTHER, "name": "orders", "description": "", "token_hash": "hash-orders"}
    pool = {"id": POOL, "executor_id": 0, "name": "warehouse", "description": "", "slots": slots}
    times = {"created_at": at, "deleted_at": 0}
    stage.write(
        _insert,
        [
            (tables.executor, executor | times),
            (tables.pool, pool | times | {"updated_at": at, "version": 1}),
        ],
    )
    return [
        stage.job(pool=PoolShare(name="warehouse", slots=slots, pool_id=POOL)) for slots in (1, 2)
    ]


def _live_slots(stage: Stage, jobs: Sequence[StagedJob]) -> int:
    shares = {job.id: (job.config.pool or PoolShare(name="")).slots for job in jobs}
    return sum(shares[run.job_id] for run in stage.runs() if is_live(run))


def _used_slots(stage: Stage) -> int:
    return sum(row.slots for row in stage.rows(sa.select(tables.pool_use)))


def the_last_slots_of_a_pool(stage: Stage) -> Iterator[None]:
    """Admins claim for two executors at once, some of whose runs are cancelled."""
    admins = [stage.admin(), stage.admin()]
    jobs = _prepare(stage, slots=3)
    stage.node(heard_by=admins[:1])
    node_id = stage.node(heard_by=admins[1:], executor_id=OTHER)
    admins[1].links.sessions[node_id] = FakeSession(node_id, OTHER)
    for executor_id in (EXECUTOR, OTHER):
        for job in jobs:
            stage.queued(job, executor_id=executor_id)
    for admin in admins:
        stage.acts(admin, "claims", admin.claims)
        if stage.random.random() < 0.5:
            stage.acts(admin, "claims again", stage.twin(admin).claims)
    if stage.random.random() < 0.3:
        editor = stage.admin()
        stage.acts(editor, "cancels", editor.runs.cancel, PERSON, 1)
    yield
    live = _live_slots(stage, jobs)
    stage.expect(live <= 3, f"{live} of 3 slots of the pool are in use")
    stage.expect(live >= 1, "nobody claimed anything")
    used = _used_slots(stage)
    stage.expect(used == live, f"{used} slots are counted, {live} are in use")


def slots_change_as_runs_end(stage: Stage) -> Iterator[None]:
    """Admins claim for two executors while runs that hold the pool end and somebody changes it."""
    claiming, elsewhere, recording, editing = [stage.admin() for _ in range(4)]
    before = 3
    after = stage.random.choice((1, 2, 5))
    jobs = _prepare(stage, slots=before)
    here = stage.node(heard_by=[claiming, recording])
    there = stage.node(heard_by=[elsewhere], executor_id=OTHER)
    elsewhere.links.sessions[there] = FakeSession(there, OTHER)
    held = [stage.running(job, here) for job in jobs]  # that is all of it
    uses = [(run.id, POOL, taken, stage.began_at) for run, taken in zip(held, (1, 2), strict=True)]
    stage.write(add_uses, uses)
    for executor_id in (EXECUTOR, OTHER):
        for job in (*jobs, jobs[0]):
            stage.queued(job, executor_id=executor_id)
    for admin in (claiming, elsewhere):
        stage.acts(admin, "claims", admin.claims)
    ending = stage.random.sample(held, stage.random.randint(1, 2))
    said = [(recording.links.sessions[here], result_of(run)) for run in ending]
    stage.acts(recording, "records", recording.records, *said)
    raw = {"name": "warehouse", "slots": after}
    edits = stage.acts(
        editing, f"gives it {after}", editing.pools.update, PERSON, POOL, raw, version=1
    )
    yield
    slots = before if edits.error is not None else after
    _expect_uses(stage, most=before if slots < before else slots)
    # Nothing is claimed beyond what there is now, and everything gets its turn.
    for _ in range(12):
        still = _used_slots(stage)
        stage.afterwards(claiming.claims, elsewhere.claims)
        _expect_uses(stage, most=max(slots, still))
        running = [run for run in stage.runs() if is_live(run)][:2]
        ends = [(FakeSession(run.node_id or 0, run.executor_id), result_of(run)) for run in running]
        stage.afterwards(partial(recording.records, *ends))
    left = [run.id for run in stage.runs() if run.state not in FINAL]
    stage.expect(not left, f"runs {left} never got slots")


def _expect_uses(stage: Stage, *, most: int) -> None:
    """Those that are live hold slots, and no others; one takes no more than there are."""
    holding = {row.run_id: row.slots for row in stage.rows(sa.select(tables.pool_use))}
    live = {run.id for run in stage.runs() if is_live(run)}
    stage.expect(set(holding) == live, f"{sorted(live)} are live, and {holding} are counted")
    used = sum(holding.values())
    stage.expect(used <= most, f"{used} of {most} slots are in use")


SCENARIOS = (the_last_slots_of_a_pool, slots_change_as_runs_end)
