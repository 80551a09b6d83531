"""Every query of failure groups reads its index, however many old groups there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import World
from tests.admin.store.database.test_query_plans import explain
from tickwheel_admin.store.alarms import evaluation
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.failures import canaries, groups

ROWS = 20_000
START = 1_700_000_000_000

QUERIES: dict[str, tuple[Callable[[sa.Connection], object], tuple[str, ...]]] = {
    "what there is to do": (evaluation.read_alarm_work, ("ix_failure_group_job_standing",)),
    "groups that are counted": (lambda c: groups.lock_groups(c, [3, 4, 5]), ("primary",)),
    "jobs that are counted": (lambda c: groups.jobs_of_groups(c, [3, 4], [3, 9]), ("primary",)),
    "jobs that stand": (
        lambda c: groups.standing_jobs(c, (7, 7), limit=100),
        ("ix_failure_group_job_standing",),
    ),
    "jobs of one group": (
        lambda c: groups.newest_jobs(c, 7, limit=100),
        ("ix_failure_group_job_recent",),
    ),
    "a page of those that stand": (
        lambda c: groups.page_groups(c, before=(START + 999, 9), limit=50),
        ("ix_failure_group_standing",),
    ),
    "a page of all": (
        lambda c: groups.page_groups(c, only_standing=False, limit=50),
        ("ix_failure_group_recent",),
    ),
    "a page of some executors": (
        lambda c: groups.page_groups(c, executor_ids=[3, 4], limit=50),
        ("ix_failure_group_of_executor",),
    ),
    "a page of all of some executors": (
        lambda c: groups.page_groups(c, only_standing=False, executor_ids=[3, 4], limit=50),
        ("ix_failure_group_of_executor",),
    ),
    "canary retries that go on": (
        lambda c: canaries.open_canaries(c, after=7),
        ("ix_failure_canary_open",),
    ),
    "the newest canary retry of a group": (
        lambda c: canaries.newest_canary(c, 7),
        ("ix_failure_canary_of_group",),
    ),
    "the canary retry of a group that goes on": (
        lambda c: canaries.lock_open_canary(c, 100),
        (),  # a group has few of them: either index will do
    ),
    "old groups": (
        lambda c: groups.remove_old_groups(c, before=START + 50, limit=10),
        ("ix_failure_group_standing",),
    ),
}


@pytest.mark.every_database
def test_indexes_are_used(world: World) -> None:
    _populate(world)
    problems = []
    for name, (query, indexes) in QUERIES.items():
        plans = explain(world, query)
        found = {index for plan in plans for index in plan.indexes}
        whole = {table for plan in plans for table in plan.scanned} & {
            "failure_group",
            "failure_group_job",
            "failure_canary",
        }
        missing = set(indexes) - found
        if missing or whole:
            shown = "\n".join(plan.text for plan in plans)
            problems.append(f"{name}: without {missing}, reads {sorted(whole)} whole\n{shown}")
    assert not problems, "\n\n".join(problems)


def _populate(world: World) -> None:
    for table, make in (
        (tables.failure_group, _group),
        (tables.failure_group_job, _job),
        (tables.failure_canary, _canary),
    ):
        for first in range(1, ROWS + 1, 5_000):
            rows = [make(n) for n in range(first, first + 5_000)]
            world.database.run_sync(insert_rows, table, rows, columns=tuple(rows[0]))
    engine = world.database.engine
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        if conn.dialect.name == "postgresql":
            conn.exec_driver_sql("VACUUM ANALYZE")
        elif conn.dialect.name != "sqlite":
            conn.exec_driver_sql("ANALYZE TABLE failure_group, failure_group_job")


def _group(n: int) -> dict[str, Any]:
    stands = n % 201 == 0
    return {
        "id": n,
        "executor_id": n % 2_000,
        "text": f"error {n}",
        "since": START + n,
        "last_at": START + n,
        "runs": 1,
        "jobs": 1,
        "first_run_id": n,
        "first_job_id": n,
        "first_revision": 1,
        "last_run_id": n,
        "returns": 0,
        "notes": "",
        "resolved_at": None if stands else START + n,
        "is_resolved": not stands,
        "version": 1,
    }


def _job(n: int) -> dict[str, Any]:
    return {
        "group_id": n // 10,
        "job_id": n,
        "runs": 1,
        "last_run_id": n,
        "last_at": START + n,
        "is_over": n % 200 != 0,
    }


def _canary(n: int) -> dict[str, Any]:
    """One of a hundred goes on."""
    return {
        "id": n,
        "group_id": n,
        "executor_id": 1 + n % 50,
        "state": "running" if n % 100 == 0 else "done",
        "user_id": 1,
        "started_by": "ann",
        "started_at": START + n,
        "since": START,
        "before_at": START,
        "before_id": n,
        "wave": 1,
        "open_runs": "[]",
        "retried": 1,
        "succeeded": 1,
        "failed": 0,
        "left_out": 0,
        "closed_key": 0 if n % 100 == 0 else n,
        "version": 1,
    }
