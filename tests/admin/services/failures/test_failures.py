"""Failure groups as people find and treat them, also two at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admin.kit.services import ADMIN, World, actor_with
from tests.admin.store.alarms.test_alarms import alarm
from tickwheel_admin.domain.alarms.alarm import Alarm
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import AlarmRule
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.failures.group import MAX_MUTE_S, FailureGroup, GroupState
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.failures.failures import FailureGroups
from tickwheel_admin.store.alarms.alarms import alarms_by_id, insert_alarms
from tickwheel_admin.store.alarms.rules import add_rule
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.failures.groups import insert_groups

pytestmark = pytest.mark.every_database


@pytest.fixture
def failures(world: World) -> FailureGroups:
    return FailureGroups(world.database, Ids(world.database), world.events)


def add(world: World, group_id: int, **changes: Any) -> int:
    values: dict[str, Any] = {
        "id": group_id,
        "executor_id": 1,
        "text": "bank-gw refused",
        "since": group_id,
        "last_at": group_id,
        "runs": 43,
        "jobs": 40,
        "first_run_id": 5,
        "first_job_id": 6,
        "first_revision": 12,
        "first_node_id": None,
        "last_run_id": 7,
    }
    world.database.run_sync(insert_groups, [FailureGroup(**values | changes)])
    return group_id


async def test_pages_of_those_that_stand_and_of_all(world: World, failures: FailureGroups) -> None:
    for group_id in range(1, 8):
        add(world, group_id, executor_id=1 + group_id % 2, last_at=group_id // 2)
    await failures.resolve(ADMIN, 6)

    async def ids(actor: Any = ADMIN, **filters: Any) -> list[int]:
        found: list[int] = []
        cursor = None
        while True:
            page = await failures.page(actor, cursor=cursor, limit=2, **filters)
            found += [each.group.id for each in page.items]
            cursor = page.next
            if cursor is None:
                return found

    assert await ids() == [7, 5, 4, 3, 2, 1]
    assert await ids(only_standing=False) == [7, 6, 5, 4, 3, 2, 1]
    assert await ids(executor_id=2, only_standing=False) == [7, 5, 3, 1]
    assert await ids(actor_with(Role.VIEWER, 1)) == [4, 2]
    assert await ids(actor_with(Role.VIEWER, 1), executor_id=2) == []


async def test_a_group_is_acknowledged_muted_and_resolved(
    world: World, failures: FailureGroups
) -> None:
    add(world, 3)
    await failures.acknowledge(ADMIN, 3)
    group = (await failures.get(ADMIN, 3)).item
    assert (group.state, group.group.owner) == (GroupState.ACKNOWLEDGED, ADMIN.name)
    with pytest.raises(Conflict, match="already"):
        await failures.acknowledge(ADMIN, 3)
    await failures.mute(ADMIN, 3, seconds=60)
    assert (await failures.get(ADMIN, 3)).item.state is GroupState.MUTED
    await failures.mute(ADMIN, 3, seconds=None)
    assert (await failures.get(ADMIN, 3)).item.state is GroupState.ACKNOWLEDGED
    for seconds in (0, MAX_MUTE_S + 1):
        with pytest.raises(InvalidInput):
            await failures.mute(ADMIN, 3, seconds=seconds)
    await failures.resolve(ADMIN, 3)
    item = (await failures.get(ADMIN, 3)).item
    assert (item.state, item.group.resolved_by) == (GroupState.RESOLVED, ADMIN.name)
    for again in (failures.acknowledge(ADMIN, 3), failures.resolve(ADMIN, 3)):
        with pytest.raises(Conflict, match="is resolved"):
            await again
    with pytest.raises(Conflict, match="is resolved"):
        await failures.mute(ADMIN, 3, seconds=60)
    assert await failures.edit(ADMIN, 3, owner="", notes=" it was DNS ", version=1) == 2
    edited = (await failures.get(ADMIN, 3)).item.group
    assert (edited.owner, edited.notes) == (None, "it was DNS")
    assert world.audit() == [
        ("failure_group.acknowledged", 3),
        ("failure_group.muted", 3),
        ("failure_group.unmuted", 3),
        ("failure_group.resolved", 3),
        ("failure_group.edited", 3),
    ]


async def test_of_two_edits_of_one_version_one_is_refused(
    world: World, failures: FailureGroups
) -> None:
    add(world, 3)
    edits = [
        failures.edit(ADMIN, 3, owner=name, notes=f"of {name}", version=1) for name in ("ann", "bo")
    ]
    answers = await asyncio.gather(*edits, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, Conflict)]
    assert [each.code for each in refused] == ["failure_group.changed"]
    group = (await failures.get(ADMIN, 3)).item.group
    assert group.version == 2
    assert group.notes == f"of {group.owner}"  # not half of each


async def test_texts_that_are_too_long_are_refused(world: World, failures: FailureGroups) -> None:
    add(world, 3)
    for changes in ({"owner": "x" * 101}, {"notes": "x" * 4_001}):
        with pytest.raises(InvalidInput):
            await failures.edit(ADMIN, 3, **{"owner": "", "notes": "", "version": 1} | changes)  # type: ignore[arg-type]


async def test_who_may_see_and_treat_it(world: World, failures: FailureGroups) -> None:
    add(world, 3)
    with pytest.raises(NotFound):
        await failures.get(actor_with(Role.ADMIN, 2), 3)
    with pytest.raises(NotFound):
        await failures.get(ADMIN, 4)
    viewer = actor_with(Role.VIEWER, 1)
    assert not (await failures.get(viewer, 3)).item.may_treat
    with pytest.raises(NotAllowed):
        await failures.acknowledge(viewer, 3)
    operator = actor_with(Role.OPERATOR, 1)
    await failures.acknowledge(operator, 3)
    assert (await failures.get(viewer, 3)).item.group.acknowledged_by == operator.name


async def test_the_page_of_a_run_leads_to_its_group(world: World, failures: FailureGroups) -> None:
    add(world, 3)
    [run_id, other] = world.add_runs([{"state": "failed", "error_id": 3}, {"state": "failed"}])
    found = await failures.of_run(ADMIN, run_id)
    assert found is not None
    assert found.id == 3
    assert await failures.of_run(ADMIN, other) is None
    assert await failures.of_run(actor_with(Role.VIEWER, 2), run_id) is None
    [run] = (await failures.get(ADMIN, 3)).runs
    assert run.id == run_id


async def test_who_treats_a_failure_treats_its_alarms(
    world: World, failures: FailureGroups
) -> None:
    add(world, 3)
    rule = AlarmRule(id=9, name="failed", kind=AlarmKind.FAILED)
    world.database.run_sync(lambda conn: add_rule(conn, rule, now=world.now))
    of_it = {
        "rule_id": 9,
        "executor_id": 1,
        "subject": "failure:3",
        "repeat_at": world.now + 60_000,
    }
    other = {"rule_id": 9, "executor_id": 1, "subject": "failure:4"}
    world.database.run_sync(insert_alarms, [alarm(1, **of_it), alarm(2, **other)])

    async def alarms() -> dict[int, Alarm]:
        return await world.database.read(alarms_by_id, [1, 2])

    await failures.mute(ADMIN, 3, seconds=60)
    muted_until = (await failures.get(ADMIN, 3)).item.group.muted_until
    assert (await alarms())[1].muted_until == muted_until is not None
    await failures.mute(ADMIN, 3, seconds=None)
    assert (await alarms())[1].muted_until is None
    await failures.acknowledge(ADMIN, 3)
    assert (await alarms())[1].acknowledged_by == ADMIN.name
    assert (await alarms())[2].acknowledged_by is None
