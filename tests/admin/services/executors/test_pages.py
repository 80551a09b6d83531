"""What people see of executors and nodes, and do with tokens and weights."""

from __future__ import annotations

import hashlib

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.executors.node import LEASE_MS
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes
from tickwheel_admin.store.executors.tokens import executor_of_token, executors_of_tokens

pytestmark = pytest.mark.turned_clock


def opens(world: World, *tokens: str) -> list[bool]:
    """Whether each token lets a node in, and lets it stay."""
    hashes = [hashlib.sha256(token.encode()).hexdigest() for token in tokens]
    lets_in = [world.database.read_sync(executor_of_token, each) is not None for each in hashes]
    valid = world.database.read_sync(executors_of_tokens, hashes)
    assert lets_in == [each in valid for each in hashes]
    return lets_in


# --- tokens ----------------------------------------------------------------------------------


async def test_two_tokens_work_until_the_overlap_is_over(world: World, clock: Clock) -> None:
    first = await world.executors.create(ADMIN, name="billing")
    second = await world.executors.rotate_token(ADMIN, first.id, overlap_seconds=60)
    assert opens(world, first.token, second.token) == [True, True]
    (item,) = await world.executors.list(ADMIN)
    assert item.old_token_until == clock.now + 60_000
    clock.advance(60)
    assert opens(world, first.token, second.token) == [False, True]
    (item,) = await world.executors.list(ADMIN)
    assert item.old_token_until is None


async def test_an_overlap_ends_with_the_next_rotation_or_when_it_is_revoked(world: World) -> None:
    first = await world.executors.create(ADMIN, name="billing")
    second = await world.executors.rotate_token(ADMIN, first.id, overlap_seconds=60)
    third = await world.executors.rotate_token(ADMIN, first.id, overlap_seconds=60)
    assert opens(world, first.token, second.token, third.token) == [False, True, True]
    await world.executors.revoke_old_token(ADMIN, first.id)
    assert opens(world, second.token, third.token) == [False, True]
    fourth = await world.executors.rotate_token(ADMIN, first.id)
    assert opens(world, third.token, fourth.token) == [False, True]
    await world.executors.rotate_token(ADMIN, first.id, overlap_seconds=60)
    await world.executors.delete(ADMIN, first.id)
    assert opens(world, fourth.token) == [False]
    assert [action for action, _ in world.audit()].count("executor.old_token_revoked") == 1


async def test_a_node_that_came_with_the_old_token_is_sent_away_at_the_end_of_the_overlap(
    world: World, clock: Clock
) -> None:
    executor_id = await world.executor()
    world.change(sa.update(tables.executor).values(token_hash=f"hash-{executor_id}"))
    admin = Admin(world.database)
    await admin.engine.membership.enter()
    node = await admin.add_node(executor_id)
    await world.executors.rotate_token(ADMIN, executor_id, overlap_seconds=10)
    await admin.engine.leases.run_once()
    assert admin.links.disconnected == []
    clock.advance(10)
    await admin.engine.leases.run_once()
    assert admin.links.disconnected == [node.node_id]


async def test_tokens_are_for_administrators(world: World) -> None:
    executor_id = await world.executor()
    developer = actor_with(Role.DEVELOPER, executor_id)
    for call in (world.executors.rotate_token, world.executors.revoke_old_token):
        with pytest.raises(NotAllowed):
            await call(developer, executor_id)
    for seconds in (-1, 2_592_001):
        with pytest.raises(InvalidInput):
            await world.executors.rotate_token(ADMIN, executor_id, overlap_seconds=seconds)


# --- what waits ------------------------------------------------------------------------------


async def test_waiting_runs_are_counted_when_they_are_due(world: World, clock: Clock) -> None:
    billing, other = await world.executor(), await world.executor("other")
    mine = {"executor_id": billing, "state": "queued", "attempt": 0}
    world.add_runs(mine | {"due_at": at} for at in (clock.now - 50, clock.now, clock.now + 1, FAR))
    world.run(executor_id=other, state="running")
    found = {
        each.name: (each.waiting, each.waiting_since) for each in await world.executors.list(ADMIN)
    }
    assert found == {"billing": (2, clock.now - 50), "other": (0, None)}
    world.add_runs(mine | {"due_at": clock.now} for _ in range(1_000))
    assert (await world.executors.get(ADMIN, billing)).item.waiting == 1_000


async def test_runs_that_are_put_off_wait_as_well(world: World, clock: Clock) -> None:
    billing = await world.executor()
    queued = {"executor_id": billing, "state": "queued", "attempt": 0, "tries": 0}
    soon = queued | {"due_at": clock.now + 5_000}
    since = {"scheduled_at": clock.now - 60_000, "created_at": clock.now - 62_000}
    world.add_runs(
        [
            soon | since | {"reason": "no_matching_node", "jitter_ms": 200},
            soon | since | {"reason": "no_node_offers_handler"},
            soon | {"due_at": clock.now},
            soon,  # planned ahead
            soon | since | {"reason": "no_matching_node", "due_at": clock.now + 5_001},
            soon | since | {"reason": "no_matching_node", "tries": 1},
        ]
    )
    (item,) = await world.executors.list(ADMIN)
    assert (item.waiting, item.waiting_since) == (3, clock.now - 60_000)


# --- nodes -----------------------------------------------------------------------------------


async def test_a_node_tells_when_it_was_seen_what_it_runs_and_who_hears_it(
    world: World, clock: Clock
) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    node_id = world.node(executor_id, full_lease_at=clock.now - 3_000 + LEASE_MS, weight=3)
    mine = {"executor_id": executor_id, "job_id": job_id, "node_id": node_id}
    newer = world.run(**mine, state="dispatched", dispatched_at=9)
    older = world.run(**mine, state="running", dispatched_at=5, progress=0.5)
    world.run(**mine, state="succeeded")
    world.run(executor_id=executor_id, job_id=job_id, state="running", node_id=1)
    admin = {"url": "", "version": "", "started_at": 1, "lease_expires_at": FAR, "status": "{}"}
    world.change(
        *(
            sa.insert(tables.admin).values(id=n, name=name, **admin)
            for n, name in ((1, "b"), (2, "a"))
        ),
        *(
            sa.insert(tables.node_session).values(
                node_id=node_id, admin_id=n, session_id=n, connected_at=n
            )
            for n in (1, 2)
        ),
    )
    viewer = actor_with(Role.VIEWER, executor_id)
    detail = await world.nodes.get(viewer, node_id)
    assert (detail.executor_name, detail.view.seen_at) == ("billing", clock.now - 3_000)
    assert (detail.view.weight, detail.view.weight_wanted, detail.view.slots_wanted) == (
        3,
        None,
        None,
    )
    assert [(each.run.id, each.job_name) for each in detail.running] == [
        (older, "invoices"),
        (newer, "invoices"),
    ]
    assert detail.running[0].progress == 0.5
    assert [(each.admin_name, each.connected_at) for each in detail.heard_by] == [
        ("a", 2),
        ("b", 1),
    ]
    clock.advance(-60)  # the clock was set back: nobody was seen in the future
    assert (await world.nodes.get(viewer, node_id)).view.seen_at == clock.now
    for actor, wanted in ((actor_with(Role.VIEWER, 999), node_id), (ADMIN, 999)):
        with pytest.raises(NotFound):
            await world.nodes.get(actor, wanted)


async def test_a_weight_holds_until_it_is_handed_back(world: World) -> None:
    executor_id = await world.executor()
    arrival = Arrival(
        executor_id=executor_id,
        node_key="key",
        name="host",
        sdk="test",
        slots=4,
        handlers=[],
        unstoppable=[],
        labels={},
        weight=2,
        address="",
    )

    def come() -> int:
        (stored,) = world.database.run_sync(
            admit_nodes, [arrival], new_ids=[7], session_ids=[1], admin_id=1
        )
        return stored.node_id

    async def weights() -> tuple[int, int | None]:
        view = (await world.nodes.get(ADMIN, node_id)).view
        return view.weight, view.weight_wanted

    node_id = come()
    operator = actor_with(Role.OPERATOR, executor_id)
    await world.nodes.set_weight(operator, node_id, 50)
    await world.nodes.set_weight(operator, node_id, 50)  # changes nothing, and is not noted
    assert await weights() == (50, 50)
    come()
    assert await weights() == (50, 50)
    await world.nodes.set_weight(operator, node_id, None)
    assert await weights() == (50, None)
    come()
    assert await weights() == (2, None)
    assert [action for action, _ in world.audit()].count("node.weight_set") == 2
    for weight in (0, 1_001):
        with pytest.raises(InvalidInput):
            await world.nodes.set_weight(operator, node_id, weight)
    with pytest.raises(NotAllowed):
        await world.nodes.set_weight(actor_with(Role.VIEWER, executor_id), node_id, 1)
    world.change(sa.update(tables.node).values(state="gone", ended_at=1))
    with pytest.raises(Conflict):
        await world.nodes.set_weight(operator, node_id, 1)


async def test_an_executor_says_since_when_its_nodes_are_gone(world: World, clock: Clock) -> None:
    executor_id = await world.executor()
    assert (await world.executors.get(ADMIN, executor_id)).gone_at is None  # it never had one
    long_ago = clock.now - 40 * 86_400_000
    world.node(executor_id, state="gone", ended_at=long_ago)
    assert (await world.executors.get(ADMIN, executor_id)).gone_at == long_ago
    world.node(executor_id)
    assert (await world.executors.get(ADMIN, executor_id)).gone_at is None
