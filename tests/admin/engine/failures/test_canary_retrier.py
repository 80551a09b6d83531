"""Canary retries: one run first, more while they succeed, none twice, whoever drives them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, NotAllowed
from tickwheel_admin.domain.failures.canary import CanaryReason, CanaryRetry, CanaryState
from tickwheel_admin.domain.failures.group import FailureGroup
from tickwheel_admin.domain.runs.error import RunError
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.engine.failures.canary_retrier import CanaryRetrier
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.failures.groups import insert_groups
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.errors import insert_errors

pytestmark = pytest.mark.every_database

REFUSED = 11
MINUTE = 60_000


class Site:
    """Runs that failed alike, and the admins that retry them."""

    def __init__(self, world: World, executor_id: int) -> None:
        self.world = world
        self.executor_id = executor_id
        ids = Ids(world.database)
        self.failures = FailureGroups(world.database, ids, world.events)
        self.admins = [
            CanaryRetrier(world.database, ids, world.events, configs=JobConfigs()) for _ in range(2)
        ]
        self.job_id = 0
        self.failed: list[int] = []  # the newest first

    async def fail(self, runs: int) -> None:
        """So many runs of a job failed alike, each a minute before the next."""
        world = self.world
        world.node(self.executor_id)
        self.job_id = await world.jobs.create(
            ADMIN, self.executor_id, JOB | {"blocking": "parallel"}
        )
        error = RunError(id=REFUSED, executor_id=self.executor_id, text="bank-gw refused")
        await world.database.run(insert_errors, [error])
        self.failed = [self.run(n) for n in range(1, runs + 1)]
        group = FailureGroup(
            id=REFUSED,
            executor_id=self.executor_id,
            text="bank-gw refused",
            since=world.now - (runs + 1) * MINUTE,
            last_at=world.now,
            runs=runs,
            jobs=1,
            first_run_id=self.failed[-1],
            first_job_id=self.job_id,
            first_revision=1,
            first_node_id=None,
            last_run_id=self.failed[0],
        )
        await world.database.run(insert_groups, [group])

    def run(self, minutes_ago: int, **changes: Any) -> int:
        at = self.world.now - minutes_ago * MINUTE
        values = {
            "executor_id": self.executor_id,
            "job_id": self.job_id,
            "state": "failed",
            "error_id": REFUSED,
            "scheduled_at": at,
            "started_at": at,
            "ended_at": at,
        }
        return self.world.run(**values | changes)

    async def step(self) -> None:
        """Let all admins look, at once, until nothing more is to be done."""

        async def drive(admin: CanaryRetrier) -> None:
            while await admin.run_once():
                pass

        await asyncio.gather(*map(drive, self.admins))

    async def canary(self) -> CanaryRetry:
        found = (await self.failures.get(ADMIN, REFUSED)).canary
        assert found is not None
        return found

    def retries(self, *, state: str | None = None) -> list[tuple[int, int]]:
        """(retried run, its retry), those in this state only."""
        run = tables.run.c
        wanted = sa.select(run.retry_of, run.id).where(run.retry_of.is_not(None))
        if state is not None:
            wanted = wanted.where(run.state == state)
        return sorted(tuple(row) for row in self.world.rows(wanted))  # type: ignore[misc]

    def end(self, retries: Sequence[tuple[int, int]], state: str = "succeeded") -> None:
        ids = [retry_id for _, retry_id in retries]
        ended = {"state": state, "ended_at": self.world.now}
        self.world.change(sa.update(tables.run).where(tables.run.c.id.in_(ids)).values(ended))


@pytest.fixture
async def site(world: World) -> Site:
    return Site(world, await world.executor())


async def test_waves_grow_while_they_succeed(site: Site) -> None:
    await site.fail(10)
    await site.failures.retry(COMMAND_LINE, REFUSED)
    waves = []
    for _ in range(5):
        await site.step()
        new = site.retries(state="queued")
        waves.append(len(new))
        if len(waves) == 2:  # a run of the wave goes on
            site.end(new[:1])
            await site.step()
            assert site.retries(state="queued") == new[1:]
            assert len((await site.canary()).open_runs) == 1
        site.end(new)
    assert waves == [1, 2, 4, 3, 0]
    retried = [run_id for run_id, _ in site.retries()]
    assert sorted(retried) == sorted(site.failed)  # each once, though two admins did it
    found = await site.canary()
    assert (found.state, found.retried, found.succeeded, found.failed) == (
        CanaryState.DONE, 10, 10, 0,
    )  # fmt: skip
    assert found.ended_at is not None
    await site.step()
    assert len(site.retries()) == 10


async def test_the_first_run_that_fails_ends_it(site: Site) -> None:
    await site.fail(10)
    await site.failures.retry(COMMAND_LINE, REFUSED)
    await site.step()
    [(first, _)] = site.retries()
    assert first == site.failed[0]  # the newest
    site.end(site.retries())
    await site.step()
    good, bad = site.retries(state="queued")
    site.end([good])
    site.end([bad], "timed_out")
    await site.step()
    found = await site.canary()
    assert (found.state, found.reason) == (CanaryState.STOPPED, CanaryReason.FAILED)
    assert (found.retried, found.succeeded, found.failed) == (3, 2, 1)
    await site.step()
    assert len(site.retries()) == 3
    # Another one goes on with what is left.
    await site.failures.retry(COMMAND_LINE, REFUSED)
    await site.step()
    assert [run_id for run_id, _ in site.retries(state="queued")] == [site.failed[3]]


async def test_runs_that_are_not_its_own_are_left_out(site: Site) -> None:
    await site.fail(3)
    run = tables.run.c
    long_ago = site.run(60)
    site.run(1, origin="step")
    site.run(1, fire_id=site.failed[0], shard_index=1)
    await site.world.runs.retry(ADMIN, site.failed[1])
    site.end(site.retries(), "failed")
    await site.failures.retry(COMMAND_LINE, REFUSED)
    site.run(0, ended_at=site.world.now + MINUTE)  # after it began
    for _ in range(4):
        await site.step()
        site.end(site.retries(state="queued"))
    retried = [run_id for run_id, _ in site.retries()]
    assert sorted(retried) == sorted(site.failed)
    assert long_ago not in retried
    assert (await site.canary()).retried == 2
    assert site.world.rows(sa.select(run.id).where(run.state == "queued")) == []


async def test_runs_of_deleted_jobs_are_left_out(site: Site) -> None:
    await site.fail(3)
    gone = sa.update(tables.job).values(deleted_at=site.world.now)
    site.world.change(gone)
    await site.failures.retry(COMMAND_LINE, REFUSED)
    await site.step()
    found = await site.canary()
    assert (found.state, found.retried, found.left_out) == (CanaryState.DONE, 0, 3)


async def test_people_stop_it(site: Site) -> None:
    await site.fail(3)
    with pytest.raises(Conflict, match="not being retried"):
        await site.failures.stop_retry(ADMIN, REFUSED)
    await site.failures.retry(ADMIN, REFUSED)
    with pytest.raises(Conflict, match="already"):
        await site.failures.retry(ADMIN, REFUSED)
    await site.failures.stop_retry(ADMIN, REFUSED)
    await site.step()
    assert site.retries() == []
    found = await site.canary()
    assert (found.state, found.reason) == (CanaryState.STOPPED, CanaryReason.BY_HAND)
    assert found.stopped_by == ADMIN.name
    audit = tables.audit.c
    actions = [row.action for row in site.world.rows(sa.select(audit.action).order_by(audit.id))]
    assert actions[-2:] == ["failure_group.retry_started", "failure_group.retry_stopped"]
    viewer = actor_with(Role.VIEWER, site.executor_id)
    for refused in (site.failures.retry, site.failures.stop_retry):
        with pytest.raises(NotAllowed):
            await refused(viewer, REFUSED)


async def test_two_people_at_once_begin_one(site: Site) -> None:
    await site.fail(3)
    begun = await asyncio.gather(
        *(site.failures.retry(COMMAND_LINE, REFUSED) for _ in range(3)), return_exceptions=True
    )
    assert sum(isinstance(each, int) for each in begun) == 1
    assert sum(isinstance(each, Conflict) for each in begun) == 2


async def test_it_retries_only_what_its_beginner_may_retry(site: Site) -> None:
    await site.fail(3)
    await site.failures.retry(ADMIN, REFUSED)  # whose account is gone
    await site.step()
    found = await site.canary()
    assert (found.state, found.reason) == (CanaryState.STOPPED, CanaryReason.NOT_ALLOWED)
    assert site.retries() == []
