"""What operators do to nodes, executors and everything: cordon, drain, slots, pauses, admins."""

from __future__ import annotations

import asyncio
import json

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.admin_status import AdminStatus, LoopStatus, status_to_json
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.executors.service import NodeView
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.triggers.pauses import read_pauses

pytestmark = pytest.mark.every_database(nightly=True)


async def view_of(world: World, executor_id: int) -> NodeView:
    (view,) = (await world.executors.get(ADMIN, executor_id)).nodes
    return view


# --- nodes -----------------------------------------------------------------------------------


@pytest.mark.every_database
async def test_nodes_are_cordoned_drained_and_resumed(world: World) -> None:
    executor_id = await world.executor()
    node_id = world.node(executor_id)
    seen = []
    for use in (
        world.nodes.cordon,
        world.nodes.cordon,
        world.nodes.drain,
        world.nodes.cordon,
        world.nodes.resume,
        world.nodes.resume,
    ):
        await use(ADMIN, node_id)
        node = (await view_of(world, executor_id)).node
        seen.append((node.cordoned, node.drain_wanted))
    assert seen == [
        (True, False),
        (True, False),
        (True, True),
        (True, False),
        (False, False),
        (False, False),
    ]
    assert world.audit()[1:] == [
        ("node.cordoned", node_id),
        ("node.drained", node_id),
        ("node.cordoned", node_id),
        ("node.resumed", node_id),
    ]


@pytest.mark.every_database
async def test_slots_change_at_once(world: World) -> None:
    executor_id = await world.executor()
    node_id = world.node(executor_id, slots=4)
    await world.nodes.set_slots(ADMIN, node_id, 9)
    view = await view_of(world, executor_id)
    assert (view.node.slots, view.slots_wanted) == (9, 9)
    await world.nodes.set_slots(ADMIN, node_id, None)
    assert (await view_of(world, executor_id)).slots_wanted is None
    (detail, _) = world.rows(
        sa.select(tables.audit.c.detail)
        .where(tables.audit.c.action == "node.slots_set")
        .order_by(tables.audit.c.id)
    )
    assert json.loads(detail.detail) == {"name": f"host-{node_id}", "slots": 9}
    for slots in (0, 10_001, -1):
        with pytest.raises(InvalidInput):
            await world.nodes.set_slots(ADMIN, node_id, slots)


async def test_who_may_change_nodes_and_which(world: World) -> None:
    executor_id = await world.executor()
    node_id = world.node(executor_id)
    ended = world.node(executor_id, state="gone", ended_at=1_000)
    for use in (world.nodes.cordon, world.nodes.drain, world.nodes.resume):
        with pytest.raises(NotAllowed):
            await use(actor_with(Role.VIEWER, executor_id), node_id)
        with pytest.raises(NotFound):
            await use(actor_with(Role.ADMIN, 999), node_id)
        with pytest.raises(NotFound):
            await use(ADMIN, 1)
        with pytest.raises(Conflict) as caught:
            await use(ADMIN, ended)
        assert caught.value.code == "node.ended"
    with pytest.raises(NotAllowed):
        await world.nodes.set_slots(actor_with(Role.VIEWER, executor_id), node_id, 2)
    await world.nodes.cordon(actor_with(Role.OPERATOR, executor_id), node_id)


# --- pauses ----------------------------------------------------------------------------------


@pytest.mark.every_database
async def test_an_executor_is_paused_from_an_instant_on(world: World) -> None:
    executor_id, other_id = await world.executor(), await world.executor("other")
    before = world.now
    await world.executors.pause(ADMIN, executor_id)
    paused_at = (await world.executors.get(ADMIN, executor_id)).item.paused_at
    assert paused_at is not None
    assert before <= paused_at <= world.now
    await world.executors.pause(ADMIN, executor_id)  # the first instant stays
    pauses = world.database.read_sync(read_pauses, [executor_id, other_id])
    assert (pauses.of(executor_id), pauses.of(other_id)) == (paused_at, None)
    assert (await world.overview.get(ADMIN)).paused_executors == 1
    for _ in range(2):
        await world.executors.resume(ADMIN, executor_id)
    assert (await world.executors.get(ADMIN, executor_id)).item.paused_at is None
    assert [action for action, _ in world.audit()][2:] == ["executor.paused", "executor.resumed"]
    with pytest.raises(NotAllowed):
        await world.executors.pause(actor_with(Role.VIEWER, executor_id), executor_id)
    await world.executors.pause(actor_with(Role.OPERATOR, executor_id), executor_id)


@pytest.mark.every_database
async def test_everything_is_paused_from_an_instant_on(world: World) -> None:
    executor_id = await world.executor()
    before = world.now
    await asyncio.gather(*(world.system.pause_all(ADMIN) for _ in range(3)))
    paused_at = await world.system.paused_at()
    assert paused_at is not None
    assert before <= paused_at <= world.now
    assert world.database.read_sync(read_pauses, [executor_id]).of(executor_id) == paused_at
    assert (await world.overview.get(ADMIN)).paused_at == paused_at
    await world.system.resume_all(ADMIN)
    await world.system.resume_all(ADMIN)
    assert await world.system.paused_at() is None
    assert [action for action, _ in world.audit()][1:] == ["system.paused", "system.resumed"]
    with pytest.raises((NotAllowed, NotFound)):
        await world.system.pause_all(actor_with(Role.ADMIN, executor_id))


async def test_what_is_paused_says_that_it_will_not_fire(world: World) -> None:
    executor_id = await world.executor()
    soon = [
        {"kind": "fixed_rate", "every_seconds": 60},
        {"kind": "fixed_delay", "every_seconds": 9},
    ]
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"triggers": soon})

    async def told() -> tuple[int, bool, int, int | None, int | None]:
        detail = await world.jobs.get(ADMIN, job_id)
        overview = await world.overview.get(ADMIN)
        return (
            len(detail.next_fires),
            detail.item.next_fire_at is not None,
            sum(len(job.triggers) for job in overview.next_jobs),
            detail.executor_paused_at,
            detail.everything_paused_at,
        )

    assert await told() == (5, True, 2, None, None)
    await world.executors.pause(ADMIN, executor_id)
    paused_at = (await world.executors.get(ADMIN, executor_id)).item.paused_at
    assert await told() == (0, False, 0, paused_at, None)
    await world.executors.resume(ADMIN, executor_id)
    await world.system.pause_all(ADMIN)
    assert await told() == (0, False, 0, None, await world.system.paused_at())
    await world.system.resume_all(ADMIN)
    assert await told() == (5, True, 2, None, None)


# --- admins ----------------------------------------------------------------------------------


async def test_admins_say_how_they_do(world: World) -> None:
    status = AdminStatus(
        clock_offset_ms=-3,
        sessions=7,
        waiting=1,
        loops={"planner": LoopStatus(last_pass_ms_ago=40, failing=False)},
    )
    now = world.now
    common = {"url": "http://a", "version": "1", "started_at": now - 5_000}
    world.change(
        sa.insert(tables.admin).values(id=2, name="b", lease_expires_at=1, status="{}", **common),
        sa.insert(tables.admin).values(
            id=1, name="a", lease_expires_at=FAR, status=status_to_json(status), **common
        ),
    )
    first, second = await world.system.admins(actor_with(Role.VIEWER, 1))
    assert (first.name, first.live, first.status) == ("a", True, status)
    assert 5_000 <= first.uptime_ms <= world.now - now + 5_000
    assert (second.live, second.status) == (False, AdminStatus())
    with pytest.raises(NotFound):
        await world.system.admins(Actor(user_id=3, name="nobody", grants={}))
