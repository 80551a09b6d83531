"""How failures are counted, ended and deleted, on every database."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import World
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.runs.error import RunError
from tickwheel_admin.engine.alarms.failure_groups import count_failures, find_recovered
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.failures import groups
from tickwheel_admin.store.runs.errors import insert_errors

pytestmark = pytest.mark.every_database

REFUSED, BROKEN = 11, 2**53 - 2
AT = 1_700_000_000_000


def fail(world: World, *of: tuple[int, int], at: int = AT) -> list[int]:
    """Runs of (job, error), counted in one transaction."""
    errors = [RunError(id=n, executor_id=1, text=f"error {n}") for n in (REFUSED, BROKEN)]
    world.database.run_sync(insert_errors, errors)
    failed = {"state": "failed", "scheduled_at": at, "ended_at": at}
    runs = world.add_runs(failed | {"job_id": job, "error_id": error} for job, error in of)
    count(world, zip(runs, of, strict=True), at=at)
    return runs


def count(world: World, runs: Iterable[tuple[int, tuple[int, int]]], *, at: int) -> None:
    signals = [
        AlarmSignal(kind=AlarmKind.FAILED, subject_id=run, at=at, executor_id=1, job_id=job)
        for run, (job, _) in runs
    ]
    world.database.run_sync(count_failures, signals)


def standing(world: World) -> dict[int, FailureGroup]:
    found = world.database.read_sync(lambda conn: groups.page_groups(conn, limit=9))
    return {each.id: each for each in found}


def test_many_runs_of_many_jobs_in_one_batch(world: World) -> None:
    fail(world, *((n % 40 + 1, REFUSED) for n in range(700)), (3, BROKEN))
    found = standing(world)
    assert (found[REFUSED].runs, found[REFUSED].jobs) == (700, 40)
    assert (found[BROKEN].runs, found[BROKEN].jobs) == (1, 1)
    fail(world, (40, REFUSED), (41, REFUSED), (41, REFUSED), at=AT + 5)
    again = standing(world)[REFUSED]
    assert (again.runs, again.jobs, again.since, again.last_at) == (703, 41, AT, AT + 5)
    jobs = world.database.read_sync(lambda conn: groups.newest_jobs(conn, REFUSED, limit=2))
    assert [(each.job_id, each.runs) for each in jobs] == [(41, 2), (40, 18)]


def test_a_job_that_failed_again_meanwhile_is_not_over(world: World) -> None:
    fail(world, (1, REFUSED), (2, REFUSED))
    seen = world.database.read_sync(lambda conn: groups.standing_jobs(conn, (0, 0), limit=9))
    assert [(each.group_id, each.job_id) for each in seen] == [(REFUSED, 1), (REFUSED, 2)]
    fail(world, (2, REFUSED), at=AT + 5)
    assert world.database.run_sync(groups.end_jobs, seen, now=AT + 9) == 0
    left = world.database.read_sync(lambda conn: groups.standing_jobs(conn, (0, 0), limit=9))
    assert [(each.job_id, each.runs) for each in left] == [(2, 2)]
    assert world.database.run_sync(groups.end_jobs, left, now=AT + 9) == 1
    assert standing(world) == {}
    group = world.database.read_sync(groups.get_group, REFUSED)
    assert group is not None
    assert (group.resolved_at, group.resolved_by, group.jobs) == (AT + 9, None, 2)


def test_a_group_that_comes_back_counts_from_the_start(world: World) -> None:
    fail(world, (1, REFUSED), (2, REFUSED))
    world.database.run_sync(groups.resolve_group, REFUSED, by="ann", now=AT + 1)
    [run] = fail(world, (2, REFUSED), at=AT + 5)
    group = standing(world)[REFUSED]
    assert (group.runs, group.jobs, group.since, group.returns) == (1, 1, AT + 5, 1)
    assert (group.first_run_id, group.resolved_by, group.resolved_at) == (run, None, None)


def test_jobs_recover_by_a_later_success(world: World) -> None:
    jobs = [{"id": n, "name": f"job {n}"} for n in (1, 2)]
    for each in jobs:
        row = {column.name: 0 for column in tables.job.columns} | {
            "executor_id": 1, "handler": "h", "owner": "", "tags": "", "paused": False,
            "pool_id": None,
        }  # fmt: skip
        world.database.run_sync(
            lambda conn, row=row | each: conn.execute(sa.insert(tables.job).values(row)).close()
        )
    fail(world, (1, REFUSED), (2, REFUSED))
    found, after = world.database.read_sync(find_recovered, (0, 0))
    assert (found, after) == ([], (0, 0))
    world.add_runs(
        [{"job_id": 2, "state": "succeeded", "scheduled_at": AT + 1, "ended_at": AT + 2}]
    )
    found, _ = world.database.read_sync(find_recovered, (0, 0))
    assert [each.job_id for each in found] == [2]


def test_old_resolved_groups_go_with_their_jobs(world: World) -> None:
    fail(world, (1, REFUSED), (1, BROKEN))
    world.database.run_sync(groups.resolve_group, REFUSED, by=None, now=AT)
    assert world.database.run_sync(groups.remove_old_groups, before=AT, limit=9) == 0
    assert world.database.run_sync(groups.remove_old_groups, before=AT + 1, limit=9) == 1
    with world.database.engine.connect() as conn:
        left = conn.execute(sa.select(tables.failure_group_job.c.group_id)).scalars().all()
    assert left == [BROKEN]
