"""Scenarios of canary retries: admins that do the same wave while somebody stops it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import sqlalchemy as sa

from tests.interleavings.admins import Admin
from tests.interleavings.props import EXECUTOR
from tests.interleavings.stage import Stage
from tests.simulation.operators import OPERATOR
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.domain.failures.canary import CanaryRetry, CanaryState
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.runs.error import RunError
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.failures.canaries import add_canary
from tickwheel_admin.store.failures.groups import insert_groups
from tickwheel_admin.store.runs.errors import insert_errors

GROUP = 1
CANARY = 1
FAILED = 5
WAVE = 2  # after one that succeeded


async def _goes_on(admin: Admin) -> None:
    await admin.engine.canary_retrier.run_once()


async def _stops(admin: Admin) -> None:
    failures = FailureGroups(admin.seat.store, admin.ids, admin.events)
    await failures.stop_retry(OPERATOR, GROUP)


def admins_share_a_wave(stage: Stage) -> Iterator[None]:
    """Two admins begin the next wave, and somebody stops it: it is begun once, or not at all."""
    first, second, third = [stage.admin() for _ in range(3)]
    stage.node(heard_by=stage.admins, slots=10)
    _fail(stage)
    for admin in (first, second):
        stage.acts(admin, "goes on", _goes_on, admin)
    stage.may_raise(stage.acts(third, "stops it", _stops, third), Conflict)
    yield
    [row] = stage.rows(sa.select(tables.failure_canary))
    runs = stage.rows(sa.select(tables.run).where(tables.run.c.retry_of.is_not(None)))
    again = Counter(run.retry_of for run in runs)
    stage.expect(len(runs) in (0, WAVE), f"{len(runs)} runs at once")
    stage.expect(set(again.values()) <= {1}, f"retries of {again}")
    stage.expect(row.retried == 1 + len(runs), f"{row.retried} are counted, of 1 + {len(runs)}")
    written = msgspec.json.decode(row.open_runs)
    expected = sorted(run.id for run in runs)
    stage.expect(written == expected, f"it waits for {written}, not {expected}")


def _fail(stage: Stage) -> None:
    """Runs that failed alike; one was retried, and succeeded."""
    conn, at = stage._conn, stage.began_at
    job = stage.job()
    insert_errors(conn, [RunError(id=GROUP, executor_id=EXECUTOR, text="refused")])
    failed = [stage.queued(job) for _ in range(FAILED)]
    for run in failed:
        stage.change(
            tables.run, run.id, state="failed", error_id=GROUP, started_at=at - 500, ended_at=at - 1
        )
    group = FailureGroup(
        id=GROUP, executor_id=EXECUTOR, text="refused", since=at - 1, last_at=at - 1, runs=FAILED,
        jobs=1, first_run_id=failed[0].id, first_job_id=job.id, first_revision=1,
        first_node_id=None, last_run_id=failed[-1].id,
    )  # fmt: skip
    insert_groups(conn, [group])
    canary = CanaryRetry(
        id=CANARY, group_id=GROUP, executor_id=EXECUTOR, state=CanaryState.RUNNING, user_id=0,
        started_by="ada", started_at=at, since=at - 1_000, before_at=at, before_id=0,
        wave=1, retried=1, succeeded=1,
    )  # fmt: skip
    add_canary(conn, canary)


SCENARIOS = (admins_share_a_wave,)
