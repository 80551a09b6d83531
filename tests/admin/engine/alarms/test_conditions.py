"""What only time makes true: looked at every ten seconds, by whichever admin comes first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.kit.alarm_stage import Stage
from tests.admin.kit.alarms import Alarms
from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, change
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RuleLimits
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.engine.alarms import conditions
from tickwheel_admin.services.overview.attention.service import Attention
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.executors.admins import remove_dead_admins
from tickwheel_admin.store.overview import alarm_facts

pytestmark = [pytest.mark.turned_clock(of_servers=True), pytest.mark.every_database(nightly=True)]


@pytest.fixture
def stage(database: Database, clock: Clock) -> Stage:
    return Stage(database, clock)


async def node_for_ever(stage: Stage, admin: Admin, *, slots: int) -> FakeSession:
    """Its lease outlasts the test."""
    node = await admin.add_node(1, slots=slots)
    lease = dict.fromkeys(("lease_expires_at", "full_lease_at"), stage.clock.now * 2)
    await change(stage.database, tables.node, node.node_id, **lease)
    return node


async def test_an_executor_without_nodes_is_told_after_a_while_and_when_it_is_back(
    stage: Stage, admin: Any
) -> None:
    await add_job(stage.database)
    await stage.alarms.rule(
        AlarmKind.NO_NODES, await stage.alarms.channel(), limits=RuleLimits(seconds=120)
    )
    for _ in range(11):
        assert await stage.after(11) == []
    assert await stage.after(11) == [[("opened", "executor-1")]]
    assert await stage.after(11) == []
    await admin.add_node(1)
    assert await stage.after(11) == []  # within the window of the first message
    assert await stage.after(45) == [[("recovered", "executor-1")]]


async def test_a_restart_does_not_forget_since_when(stage: Stage) -> None:
    await add_job(stage.database)  # of an executor that never had a node
    mail = await stage.alarms.channel()
    await stage.alarms.rule(AlarmKind.NO_NODES, mail, limits=RuleLimits(seconds=120))
    for _ in range(11):
        assert await stage.after(11) == []
        stage.alarms = Alarms(stage.database)
    assert await stage.after(11) == [[("opened", "executor-1")]]
    for _ in range(12):
        stage.alarms = Alarms(stage.database)
        assert await stage.after(11) == []  # it holds still, and is not over


async def test_an_admin_that_did_not_look_for_a_while_tells_nothing_old(
    stage: Stage, admin: Admin
) -> None:
    job = await add_job(stage.database)
    await stage.alarms.rule(
        AlarmKind.FULL, await stage.alarms.channel(), limits=RuleLimits(seconds=120)
    )
    node = await node_for_ever(stage, admin, slots=1)
    other, mine = Alarms(stage.database), stage.alarms

    async def fill() -> Any:
        for _ in range(2):
            await ask(stage.database, job)
        [request] = await admin.dispatch_all(node)
        await admin.say(node, accepted(request))
        return request

    stage.alarms = other
    request = await fill()
    assert await stage.after(11) == []
    await admin.say(node, result(request))
    [request] = await admin.dispatch_all(node)
    await admin.say(node, accepted(request))
    await admin.say(node, result(request))
    stage.alarms = mine
    for _ in range(20):
        assert await stage.after(11) == []
    await fill()
    stage.alarms = other
    assert await stage.after(11) == []
    told = [await stage.after(11) for _ in range(12)]
    assert [each for each in told if each] == [[[("opened", "executor-1")]]]


async def test_what_waits_behind_too_many_others_is_not_said_to_have_started(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alarm_facts, "LATE_READ", 3)
    mail = await stage.alarms.channel()
    await stage.alarms.rule(AlarmKind.STARTED_LATE, mail, limits=RuleLimits(seconds=60))
    runs = [
        await ask(stage.database, await add_job(stage.database, name=f"job {n}")) for n in range(6)
    ]
    stage.clock.advance(61)
    await stage.alarms.tell()
    assert len(await stage.alarms.open()) == 3
    for first in range(20):  # they are put off in turns, so others are the oldest
        for run in (runs[first % 6], runs[(first + 1) % 6], runs[(first + 2) % 6]):
            await change(stage.database, tables.run, run, due_at=stage.clock.now + 1_000)
        told = await stage.after(61)
        assert not [entry for each in told for entry in each if entry[0] == "recovered"]
    assert len(await stage.alarms.open()) == 6
    for run in runs:
        await change(stage.database, tables.run, run, state="cancelled")
    await stage.after(11)
    stage.clock.advance(601)
    await stage.alarms.evaluate()
    assert await stage.alarms.open() == []


async def test_due_runs_that_wait_although_slots_are_free_are_told_for_their_executor(
    stage: Stage, admin: Admin
) -> None:
    await stage.alarms.rule(AlarmKind.LATE, await stage.alarms.channel(), group_window_s=0)
    narrow = RoutingPolicy(selector="gpu")
    run = await ask(stage.database, await add_job(stage.database, routing=narrow))
    await node_for_ever(stage, admin, slots=2)
    assert await stage.after(11) == []
    assert await stage.after(31) == [[("opened", "executor-1")]]
    (alarm,) = await stage.alarms.open()
    assert (alarm.executor_id, alarm.run_id) == (1, run)
    (concern,) = await Attention(stage.database).get(ADMIN)
    assert (concern.kind, concern.alarms) == (AlarmKind.LATE, 1)
    await change(stage.database, tables.run, run, state="cancelled")
    assert await stage.after(11) == [[("recovered", "executor-1")]]


async def test_late_runs_of_executors_that_were_too_many_to_look_at_are_not_said_to_have_started(
    stage: Stage, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "MAX_LATE_EXECUTORS", 1)
    await stage.alarms.rule(AlarmKind.LATE, await stage.alarms.channel(), group_window_s=0)
    await node_for_ever(stage, admin, slots=2)
    narrow = RoutingPolicy(selector="gpu")
    await ask(stage.database, await add_job(stage.database, routing=narrow))
    assert await stage.after(31) == [[("opened", "executor-1")]]
    # Its run is now the younger one, and the look asks about the other executor.
    other = await admin.add_node(2, slots=2)
    lease = dict.fromkeys(("lease_expires_at", "full_lease_at"), stage.clock.now * 2)
    await change(stage.database, tables.node, other.node_id, **lease)
    older = await ask(stage.database, await add_job(stage.database, executor_id=2, routing=narrow))
    long_ago = dict.fromkeys(("due_at", "scheduled_at", "created_at"), 1)
    await change(stage.database, tables.run, older, **long_ago)
    assert await stage.after(11) == [[("opened", "executor-2")]]
    assert len(await stage.alarms.open()) == 2


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_admin_is_gone_until_one_of_its_name_starts(
    stage: Stage, admin: Admin, *, at_once: bool
) -> None:
    await stage.alarms.rule(AlarmKind.ADMIN_GONE, await stage.alarms.channel(), group_window_s=0)

    async def start(number: int) -> None:
        """Another admin of the same name."""
        await Admin(stage.database, admin_id=number).engine.membership.enter()
        await change(stage.database, tables.admin, number, name="admin-1")

    await admin.engine.membership.enter()
    await start(2)  # long before, and still up
    await change(stage.database, tables.admin, 2, started_at=1)
    if at_once:
        await start(3)
    await change(stage.database, tables.admin, admin.admin_id, lease_expires_at=1)
    assert await stage.database.run(remove_dead_admins) == [admin.admin_id]
    told = [entry for each in await stage.after(1) for entry in each]
    assert told[0][0] == "opened"
    if not at_once:
        assert await stage.after(11) == []
        await start(3)
    told += [entry for each in await stage.after(11) for entry in each]
    assert [occasion for occasion, _ in told] == ["opened", "recovered"]
