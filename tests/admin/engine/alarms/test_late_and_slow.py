"""Runs that start late or take long: seen while they do, and measured when that is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.kit.alarm_stage import Stage
from tests.admin.kit.alarms import Alarms
from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RuleLimits, RuleScope
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.store.alarms.rules import lock_alarm_edits
from tickwheel_admin.store.alarms.run_watch import RunWatch
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import Outcome

pytestmark = [pytest.mark.turned_clock(of_servers=True), pytest.mark.every_database(nightly=True)]

LATE, SLOW = AlarmKind.STARTED_LATE, AlarmKind.SLOW
SETTLED_S = 601


class Watched(Stage):
    """A stage with an engine that records what a node says of the runs."""

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock)
        self.admin = Admin(database)
        self.alarms = Alarms(database, watch=self.admin.engine.evaluator.watch)
        self.node: FakeSession

    async def takes(
        self, job: int, *, waits: float = 0, runs: float = 0, outcome: Outcome = Outcome.SUCCEEDED,
        **changes: Any,
    ) -> int:  # fmt: skip
        """A run of the job that waits and runs so long, in seconds; no alarm looks meanwhile."""
        run_id = await ask(self.database, job, scheduled_at=self.clock.now, **changes)
        self.clock.advance(waits)
        requests = await self.admin.dispatch_all(self.node)
        await self.admin.say(self.node, *map(accepted, requests))
        self.clock.advance(runs)
        took = {"duration_ms": round(runs * 1000)}
        await self.admin.say(self.node, *(result(each, outcome, **took) for each in requests))
        return run_id

    async def texts(self) -> list[str]:
        """What is the matter, of each entry of each message that is told now."""
        await self.alarms.evaluate()
        await self.alarms.deliver()
        entries = [entry for each in self.alarms.provider.taken for entry in each.entries]
        self.alarms.provider.told()
        return [f"{each.occasion}: {each.template % each.params}" for each in entries]


@pytest.fixture
async def stage(database: Database, clock: Clock) -> Watched:
    watched = Watched(database, clock)
    await watched.admin.engine.membership.enter()
    watched.node = await watched.admin.add_node(1)
    lease = {"lease_expires_at": clock.now * 2, "full_lease_at": clock.now * 2}
    await change(database, tables.node, watched.node.node_id, **lease)
    return watched


async def rule(stage: Watched, kind: AlarmKind, **limits: Any) -> int:
    found = await stage.alarms.rule(
        kind, await stage.alarms.channel(), limits=RuleLimits(**limits), group_window_s=1
    )
    await stage.alarms.evaluate()
    return found


async def test_while_they_wait_and_run(stage: Watched) -> None:
    job = await add_job(stage.database, name="bills")
    await rule(stage, LATE, seconds=60)
    await rule(stage, SLOW, seconds=60)
    run_id = await stage.succeed(job)
    await change(stage.database, tables.run, run_id, state="queued", tries=0, ended_at=None)
    assert await stage.after(50) == []
    assert await stage.after(11) == [[("opened", "bills")]]
    now = stage.clock.now
    await change(stage.database, tables.run, run_id, state="running", tries=1, started_at=now)
    assert await stage.after(50) == []
    assert await stage.after(11) == [[("opened", "bills")]]
    assert {each.kind for each in await stage.alarms.open()} == {LATE, SLOW}
    assert await stage.after(SETTLED_S - 61) == [[("recovered", "bills")]]  # it was late once


@pytest.mark.parametrize("kind", [LATE, SLOW])
async def test_between_two_looks(stage: Watched, kind: AlarmKind) -> None:
    job = await add_job(stage.database, name="bills")
    await rule(stage, kind, seconds=3)
    lasts = {"waits": 4.5} if kind is LATE else {"runs": 4.5}
    first = await stage.takes(job, **lasts)
    said = "started 4.5 s late." if kind is LATE else "took 4.5 s."
    assert await stage.texts() == [f"opened: Run {first} of “bills” {said}"]
    last = await stage.takes(job, **lasts)
    assert await stage.texts() == []  # told once, and counted
    [alarm] = await stage.alarms.open()
    assert (alarm.count, alarm.run_id) == (2, last)
    stage.clock.advance(11)
    await stage.takes(job)
    assert await stage.after(11) == [[("recovered", "bills")]]
    await stage.takes(job, **lasts)
    assert await stage.after(1) == [[("opened", "bills")]]
    assert await stage.after(SETTLED_S - 20) == []
    assert await stage.after(20) == [[("recovered", "bills")]]  # no other run, and not again


async def test_a_start_within_its_jitter_shows_that_starts_are_in_time(stage: Watched) -> None:
    job = await add_job(stage.database, name="bills")
    await rule(stage, LATE, seconds=3)
    await stage.takes(job, waits=4.5)
    assert await stage.after(1) == [[("opened", "bills")]]
    stage.clock.advance(11)
    await stage.takes(job, waits=5, jitter_ms=5_000)
    assert await stage.after(11) == [[("recovered", "bills")]]


async def test_what_was_seen_while_it_was_late_counts_once(stage: Watched) -> None:
    job = await add_job(stage.database, name="bills")
    await rule(stage, LATE, seconds=3)
    run_id = await ask(stage.database, job, scheduled_at=stage.clock.now)
    assert await stage.after(11) == [[("opened", "bills")]]
    requests = await stage.admin.dispatch_all(stage.node)
    assert [each.run for each in requests] == [run_id]
    await stage.admin.say(stage.node, *map(accepted, requests))
    await stage.alarms.tell()
    [alarm] = await stage.alarms.open()
    assert (alarm.count, alarm.told.params["seconds"]) == (1, "11.0")


@pytest.mark.parametrize(
    ("limits", "changes", "takes", "is_told"),
    [
        (RuleLimits(factor=2), {}, 1.5, False),
        (RuleLimits(factor=2), {}, 2.5, True),
        (RuleLimits(factor=2, seconds=9), {}, 2.5, True),
        (RuleLimits(seconds=2), {}, 2.0, False),
        (RuleLimits(seconds=2), {"outcome": Outcome.FAILED}, 2.5, True),
        (RuleLimits(seconds=2), {"outcome": Outcome.SKIPPED}, 2.5, False),
        (RuleLimits(seconds=2), {"origin": Origin.TRY}, 2.5, False),
    ],
)
async def test_what_takes_too_long(
    stage: Watched, limits: RuleLimits, changes: dict[str, Any], takes: float, is_told: bool
) -> None:
    job = await add_job(stage.database)
    await change(stage.database, tables.job, job, usual_ms=1_000)
    await stage.alarms.rule(SLOW, limits=limits)
    await stage.alarms.evaluate()
    await stage.takes(job, runs=takes, **changes)
    await stage.alarms.evaluate()
    assert bool(await stage.alarms.open()) is is_told


@pytest.mark.parametrize(
    ("scope", "is_told"),
    [
        ({"scope": RuleScope.TAG, "tag": "money"}, True),
        ({"scope": RuleScope.TAG, "tag": "other"}, False),
        ({"scope": RuleScope.EXECUTOR, "executor_id": 1}, True),
        ({"scope": RuleScope.EXECUTOR, "executor_id": 2}, False),
        ({"enabled": False}, False),
    ],
)
async def test_whom_a_rule_is_about(stage: Watched, scope: dict[str, Any], is_told: bool) -> None:
    job = await add_job(stage.database)
    await change(stage.database, tables.job, job, tags="money")
    limits = RuleLimits(seconds=3)
    await stage.alarms.rule(LATE, limits=limits, **scope)
    await stage.alarms.evaluate()
    await stage.takes(job, waits=3)
    await stage.alarms.evaluate()
    assert bool(await stage.alarms.open()) is is_told


async def test_a_backfill_that_waits_for_slots_is_not_late(stage: Watched) -> None:
    job = await add_job(stage.database)
    await stage.alarms.rule(LATE, limits=RuleLimits(seconds=3))
    await stage.alarms.evaluate()
    await stage.takes(job, waits=4, origin=Origin.BACKFILL)
    await stage.alarms.evaluate()
    assert await stage.alarms.open() == []


async def test_a_nearer_rule_with_a_longer_limit_wins(stage: Watched) -> None:
    job, other = await add_job(stage.database), await add_job(stage.database)
    await stage.alarms.rule(LATE, limits=RuleLimits(seconds=3))
    near = {"scope": RuleScope.JOB, "job_id": job}
    await stage.alarms.rule(LATE, limits=RuleLimits(seconds=6), **near)
    await stage.alarms.evaluate()
    await stage.takes(job, waits=4)
    await stage.takes(other, waits=4)
    await stage.alarms.evaluate()
    assert [each.job_id for each in await stage.alarms.open()] == [other]
    await stage.takes(job, waits=6)
    await stage.alarms.evaluate()
    assert {each.job_id for each in await stage.alarms.open()} == {job, other}


async def test_each_try_may_take_too_long_and_only_the_first_starts_late(stage: Watched) -> None:
    job = await add_job(stage.database, retry=RetryPolicy(retries=1, delay_ms=0))
    for kind in (LATE, SLOW):
        await stage.alarms.rule(kind, limits=RuleLimits(seconds=3))
    await stage.alarms.evaluate()
    await stage.takes(job, runs=4, outcome=Outcome.FAILED)
    [request] = await stage.admin.dispatch_all(stage.node)  # 4 s after it was due
    await stage.admin.say(stage.node, accepted(request))
    await stage.admin.say(stage.node, result(request, duration_ms=0))
    await stage.alarms.evaluate()
    assert [(each.kind, each.count) for each in await stage.alarms.open()] == [(SLOW, 1)]


async def test_a_whole_fire_is_measured_and_not_its_shards(stage: Watched) -> None:
    job = await add_job(stage.database, routing=RoutingPolicy(strategy=Routing.SHARDS, shards=3))
    for kind in (LATE, SLOW):
        await stage.alarms.rule(kind, limits=RuleLimits(seconds=3))
    await stage.alarms.evaluate()
    fire = await stage.takes(job, waits=4, runs=4, shard_index=-1)
    await stage.alarms.evaluate()
    found = [(each.kind, each.run_id, each.count) for each in await stage.alarms.open()]
    assert sorted(found) == [(SLOW, fire, 1), (LATE, fire, 1)]


async def test_another_admin_learns_of_an_edit_with_its_next_pass(stage: Watched) -> None:
    """The one that does not look at conditions has to measure as well."""
    other = Alarms(stage.database, watch=RunWatch())
    await other.evaluate()
    await rule(stage, LATE, seconds=3)
    await stage.database.run(lock_alarm_edits)  # as an edit does
    assert not other.evaluator.watch.has_rules
    await other.evaluate()
    assert other.evaluator.watch.has_rules
