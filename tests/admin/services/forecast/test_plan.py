"""The night plan as a use case: what it reads, whose deadlines, and who sees what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.admin.domain.forecast.situations import DAY_MS, NOW, job
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import AlarmRule, RuleLimits, RuleScope
from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec
from tickwheel_admin.domain.errors import InvalidInput, NotFound
from tickwheel_admin.domain.forecast.night_plan import DeadlineVerdict
from tickwheel_admin.domain.forecast.plan_deadlines import deadlines_of
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.forecast.plan import HOUR_MS, NightPlans
from tickwheel_admin.services.forecast.process import ForecastProcesses

HOURLY = {"kind": "cron", "expression": "0 * * * *"}
MINUTE_MS = 60_000


@pytest.fixture
async def plans(world: World) -> AsyncIterator[NightPlans]:
    processes = ForecastProcesses()
    yield NightPlans(world.database, processes=processes)
    processes.close()


async def hourly_job(world: World, executor_id: int, **changes: Any) -> int:
    return await world.jobs.create(ADMIN, executor_id, {**JOB, "triggers": [HOURLY], **changes})


def by(at: int) -> dict[str, Any]:
    """A rule whose deadline is at this instant of each day."""
    minute = at // MINUTE_MS % (24 * 60)
    return {
        "kind": "deadline_missed",
        "limits": {"by": f"{minute // 60:02}:{minute % 60:02}", "seconds": 6 * 3_600},
    }


async def test_past_running_and_predicted_runs_of_an_executor(
    world: World, plans: NightPlans
) -> None:
    executor_id, other_id = await world.executor(), await world.executor("crm")
    node_id = world.node(executor_id)
    job_id = await hourly_job(world, executor_id)
    await hourly_job(world, other_id)
    now = world.now
    common = {"job_id": job_id, "executor_id": executor_id}
    world.add_runs(
        [
            {**common, "scheduled_at": now - back * HOUR_MS, "started_at": now - back * HOUR_MS,
             "ended_at": now - back * HOUR_MS + 10 * MINUTE_MS, "node_id": node_id}
            for back in (1, 2, 5, 13)
        ]
    )  # fmt: skip
    running = world.run(
        **common, state=RunState.RUNNING.value, scheduled_at=now - MINUTE_MS,
        started_at=now - MINUTE_MS, ended_at=None, node_id=node_id,
    )  # fmt: skip

    found = await plans.get(ADMIN, executor_id, from_at=now - 6 * HOUR_MS, hours=3)
    assert [each.scheduled_at for each in found.past] == [
        now - back * HOUR_MS for back in (5, 2, 1)
    ]
    first, *predicted = found.plan.bars
    assert (first.run_id, first.is_running, first.node_id) == (running, True, node_id)
    assert len(predicted) in (2, 3)  # the end falls on a full hour once in a while
    assert {bar.run_id for bar in predicted} == {None}
    assert {bar.job_id for bar in found.plan.bars} == {job_id}
    assert found.plan.end == found.now + 3 * HOUR_MS
    assert (found.plan.slots, found.node_names) == (4, {node_id: f"host-{node_id}"})
    assert all((bar.end_at or 0) - bar.start_at == 10 * MINUTE_MS for bar in predicted)

    of_node = await plans.get(ADMIN, executor_id, node_id=node_id, hours=3)
    assert {bar.node_id for bar in of_node.plan.bars} == {node_id}
    assert len(of_node.past) == 1 + (of_node.now - of_node.from_at <= 2 * HOUR_MS)


async def test_a_deadline_is_told_with_what_it_waits_for(world: World, plans: NightPlans) -> None:
    """A run of another job of a hidden executor holds the pool; it has no name for the reader."""
    executor_id, hidden_id = await world.executor(), await world.executor("secret")
    node_id, _ = world.node(hidden_id), world.node(executor_id)
    pool_id = await world.pools.create(ADMIN, {"name": "database", "slots": 1})
    pool = {"pool": "database"}
    now = world.now
    deadline = now - now % MINUTE_MS + 2 * HOUR_MS
    hidden = await hourly_job(world, hidden_id, name="hidden", triggers=[], **pool)
    late = await hourly_job(
        world, executor_id, name="late", triggers=[], alarms=[by(deadline)], **pool
    )
    blocker = world.run(
        job_id=hidden, executor_id=hidden_id, state=RunState.RUNNING.value, ended_at=None,
        started_at=now - 20 * HOUR_MS, scheduled_at=now - 20 * HOUR_MS, pool_id=pool_id,
        node_id=node_id,
    )  # fmt: skip
    waiting = world.run(
        job_id=late, executor_id=executor_id, state=RunState.QUEUED.value, started_at=None,
        ended_at=None, scheduled_at=now - HOUR_MS, due_at=now - HOUR_MS, pool_id=pool_id,
    )  # fmt: skip
    assert blocker != waiting

    found = await plans.get(actor_with(Role.VIEWER, executor_id), executor_id, hours=4)
    [told] = found.plan.deadlines
    assert (told.job_id, told.verdict, told.at) == (late, DeadlineVerdict.MISSED, deadline)
    [step] = told.path
    assert (step.run_id, step.waits_for) == (waiting, "pool")
    assert [holder.job_id for holder in step.holders] == [hidden]
    assert found.job_names == {late: "late"}, "what the reader may not see has no name"
    assert [(each.remedy.kind, each.makes_it) for each in told.remedies] == [("skip", True)]


async def test_what_may_not_be_seen_is_not_found(world: World, plans: NightPlans) -> None:
    executor_id, other_id = await world.executor(), await world.executor("crm")
    node_id = world.node(other_id)
    bob = actor_with(Role.VIEWER, executor_id)
    with pytest.raises(NotFound):
        await plans.get(bob, other_id)
    with pytest.raises(NotFound):
        await plans.get(bob, 999)
    with pytest.raises(NotFound):
        await plans.get(bob, executor_id, node_id=node_id)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"hours": 25}, "hours"), ({"hours": 0}, "hours"), ({"from_at": 1}, "from")],
)
async def test_a_plan_is_bounded(
    world: World, plans: NightPlans, changes: dict[str, int], field: str
) -> None:
    executor_id = await world.executor()
    with pytest.raises(InvalidInput) as caught:
        await plans.get(ADMIN, executor_id, **changes)
    assert [each.field for each in caught.value.problems] == [field]


def rule(number: int, scope: RuleScope, **changes: Any) -> AlarmRule:
    limits = RuleLimits(**({"by": "06:00:00"} | changes.pop("limits", {})))
    return AlarmRule(
        id=number,
        name=str(number),
        kind=AlarmKind.DEADLINE_MISSED,
        scope=scope,
        limits=limits,
        **changes,
    )


def test_the_nearest_rule_of_a_job_counts_as_for_alarms() -> None:
    jobs = [job(1, tags=("money",)), job(2)]
    rules = [
        rule(1, RuleScope.EXECUTOR, executor_id=1),
        rule(2, RuleScope.TAG, tag="money", limits={"by": "03:00:00"}),
        rule(3, RuleScope.JOB, job_id=2, enabled=False, limits={"by": "01:00:00"}),
        rule(4, RuleScope.INSTALLATION, limits={"by": "02:00:00", "calendar": "gone"}),
    ]
    found = deadlines_of(jobs, rules, {}, now=NOW, until=NOW + DAY_MS)
    assert [(each.rule_id, each.job_id, each.at - NOW) for each in found] == [
        (2, 1, 3 * HOUR_MS),
        (1, 2, 6 * HOUR_MS),
    ]
    assert {each.since for each in found} == {NOW}


def test_a_success_of_the_day_meets_its_deadline_and_calendars_take_days_away() -> None:
    met = replace(job(1), last_success_at=NOW + HOUR_MS)
    [first, second] = deadlines_of(
        [met], [rule(1, RuleScope.INSTALLATION)], {}, now=NOW + 2 * HOUR_MS, until=NOW + 2 * DAY_MS
    )
    assert (first.is_met, second.is_met) == (True, False)
    never = Calendar(
        name="never", version=1, spec=CalendarSpec(weekdays=(1, 2, 3, 4, 5, 6, 7)), changed_at=0
    )
    rules = [rule(1, RuleScope.INSTALLATION, limits={"calendar": "never"})]
    assert deadlines_of([met], rules, {"never": never}, now=NOW, until=NOW + DAY_MS) == []


async def test_steps_of_a_workflow_are_told_with_the_workflow_they_are_of(
    world: World, plans: NightPlans
) -> None:
    """Each hidden job has bars, and a name; no rule gives it a deadline of its own."""
    executor_id = await world.executor()
    world.node(executor_id)
    steps = [{"key": "read", "handler": "send-invoices"}]
    steps.append({"key": "write", "handler": "send-invoices", "needs": ["read"]})  # type: ignore[dict-item]
    flow = await world.jobs.create(
        ADMIN,
        executor_id,
        {"name": "flow", "workflow": {"steps": steps}, "triggers": [HOURLY],
         "alarms": [by(world.now + 2 * HOUR_MS)]},
    )  # fmt: skip
    found = await plans.get(ADMIN, executor_id, hours=4)
    names = [found.job_names[each.job_id] for each in found.plan.bars]
    assert sorted(set(names)) == ["flow", "flow/read", "flow/write"]
    assert names.count("flow/write") == names.count("flow") >= 3
    steps_of = {job_id for job_id, name in found.job_names.items() if name != "flow"}
    assert found.workflows == dict.fromkeys(steps_of, flow)
    assert {each.job_id for each in found.plan.deadlines} == {flow}
    assert (found.plan.basis.workflows, found.plan.basis.jobs) == (1, 1)
