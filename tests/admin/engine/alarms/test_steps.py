"""A failed step is told by its workflow; of the step only rules about its job want to hear."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.engine.alarms.test_late_and_slow import Watched
from tests.admin.kit.alarm_stage import Stage
from tests.admin.kit.clock import Clock
from tests.admin.kit.rows import add_job, ask, change
from tests.admin.kit.workflows import Player, add_workflow, step
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RuleLimits, RuleScope
from tickwheel_admin.domain.runs.run import WORKFLOW, Origin
from tickwheel_admin.domain.workflows.graph import JobStep, SubWorkflow
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database

pytestmark = [pytest.mark.turned_clock(of_servers=True), pytest.mark.every_database(nightly=True)]

FAR: list[dict[str, Any]] = [
    {},
    {"additional": True},
    {"scope": RuleScope.EXECUTOR, "executor_id": 1},
    {"scope": RuleScope.TAG, "tag": "money"},
]


@pytest.fixture
async def watched(database: Database, clock: Clock) -> Watched:
    stage = Watched(database, clock)
    await stage.admin.engine.membership.enter()
    stage.node = await stage.admin.add_node(1)
    lease = {"lease_expires_at": clock.now * 2, "full_lease_at": clock.now * 2}
    await change(database, tables.node, stage.node.node_id, **lease)
    return stage


async def test_one_failure_of_a_workflow_is_told_once_and_names_the_step(
    watched: Watched,
) -> None:
    database, of = watched.database, {"executor_id": watched.node.executor_id}
    bills = await add_job(database, name="bills", **of)
    steps = (step("own"), step("post", body=JobStep(job_id=bills)))
    inner = await add_workflow(database, *steps, name="inner", **of)
    month = await add_workflow(
        database, step("inner", body=SubWorkflow(job_id=inner)), name="month", **of
    )
    chat, team = await watched.alarms.channel(), await watched.alarms.channel()
    for kind in (AlarmKind.FAILED, AlarmKind.FAILING_STREAK):
        await watched.alarms.rule(kind, chat, limits=RuleLimits(count=1), group_window_s=1)
    await ask(database, month, shard_index=WORKFLOW)
    player = Player(watched.admin, watched.node)
    assert await player.play(fail=["own", "post"]) == [["own", "post"]]

    await watched.alarms.evaluate()
    await watched.alarms.deliver()
    entries = [each for message in watched.alarms.provider.taken for each in message.entries]

    assert {each.job_name for each in entries} == {"month"}
    assert {each.kind for each in await watched.alarms.open()} == {
        AlarmKind.FAILED,
        AlarmKind.FAILING_STREAK,
    }
    [line] = {each.error_line for each in entries}
    assert line is not None
    assert "inner" in line

    # Who asks for a job hears of it wherever it runs.
    watched.alarms.provider.told()
    near = {"scope": RuleScope.JOB, "job_id": bills}
    await watched.alarms.rule(AlarmKind.FAILED, team, **near)
    watched.clock.advance(60)
    await ask(database, month, shard_index=WORKFLOW)
    await player.play(fail=["post"])
    assert await watched.alarms.tell() == [[("opened", "bills")]]


@pytest.mark.parametrize("scope", FAR)
@pytest.mark.parametrize("origin", [Origin.SCHEDULE, Origin.STEP])
async def test_whose_steps_a_rule_is_about(
    database: Database, clock: Clock, scope: dict[str, Any], origin: Origin
) -> None:
    stage = Stage(database, clock)
    job = await add_job(database, name="bills")
    await change(database, tables.job, job, tags="money")
    kinds = [AlarmKind.FAILED, AlarmKind.TRY_FAILED, AlarmKind.LOST, AlarmKind.SKIPPED]
    for kind in kinds:
        await stage.alarms.rule(kind, await stage.alarms.channel(), **scope)
        await stage.fail(job, kind, origin=origin)
    await stage.alarms.evaluate()
    far = {each.kind for each in await stage.alarms.open()}
    assert far == (set() if origin is Origin.STEP else set(kinds))

    near = await stage.alarms.rule(AlarmKind.TIMED_OUT, scope=RuleScope.JOB, job_id=job)
    await stage.fail(job, AlarmKind.TIMED_OUT, origin=origin)
    await stage.alarms.evaluate()
    assert near in {each.rule_id for each in await stage.alarms.open()}


async def test_a_streak_is_of_runs_of_the_same_sort(database: Database, clock: Clock) -> None:
    stage = Stage(database, clock)
    job = await add_job(database, name="bills")
    three = {"limits": RuleLimits(count=3)}
    far = await stage.alarms.rule(AlarmKind.FAILING_STREAK, **three)
    near = await stage.alarms.rule(
        AlarmKind.FAILING_STREAK, scope=RuleScope.JOB, job_id=job, additional=True, **three
    )

    async def failed(*origins: Origin) -> set[int]:
        for origin in origins:
            clock.advance(1)
            await stage.fail(job, origin=origin)
        await stage.alarms.evaluate()
        return {each.rule_id for each in await stage.alarms.open()}

    assert await failed(Origin.SCHEDULE, Origin.STEP) == set()
    assert await failed(Origin.STEP) == {near}
    assert await failed(Origin.SCHEDULE) == {near}
    assert await failed(Origin.SCHEDULE) == {near, far}


@pytest.mark.parametrize("kind", [AlarmKind.STARTED_LATE, AlarmKind.SLOW])
@pytest.mark.parametrize("is_seen", [False, True])
async def test_late_and_slow_steps(watched: Watched, kind: AlarmKind, is_seen: bool) -> None:
    """Seen while they wait and run, or measured afterwards."""
    far, near = await add_job(watched.database), await add_job(watched.database)
    hidden = await add_job(watched.database)
    await change(watched.database, tables.job, hidden, deleted_at=-1)
    limits = RuleLimits(seconds=3)
    await watched.alarms.rule(kind, limits=limits)
    await watched.alarms.rule(kind, limits=limits, scope=RuleScope.JOB, job_id=near)
    await watched.alarms.evaluate()
    is_late = kind is AlarmKind.STARTED_LATE
    lasts = {"waits": 4.0} if is_late else {"runs": 4.0}
    jobs = (far, near, hidden)
    runs = [await watched.takes(job, origin=Origin.STEP, **lasts) for job in jobs]
    stands = {"state": "queued", "tries": 0} if is_late else {"state": "running", "tries": 1}
    for run_id in runs if is_seen else ():
        await change(watched.database, tables.run, run_id, ended_at=None, **stands)
    if is_seen:
        await watched.database.run(lambda c: c.execute(tables.alarm_signal.delete()).close())
        watched.clock.advance(11)
    await watched.alarms.evaluate()
    [alarm] = await watched.alarms.open()
    assert (alarm.job_id, alarm.kind) == (near, kind)
