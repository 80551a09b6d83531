"""What operators do with nodes, from the row to the socket; and how admins do."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import NOW
from tests.admin.kit.engine import Admin, FakeSession, new_executor_id
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, ask, in_use, states
from tests.admin.kit.services import ADMIN
from tickwheel_admin.domain.admin_status import status_from_json
from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.services.executors.nodes import Nodes
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.node_slots import take_slots
from tickwheel_admin.store.executors.nodes import Arrival
from tickwheel_shared.protocol import Held

pytestmark = pytest.mark.turned_clock


WALL_CLOCK = NOW - 7_000  # of the machine the admin runs on


@pytest.fixture
async def admin(database: Database) -> Admin:
    admin = Admin(database)
    await admin.engine.membership.enter()
    return admin


def nodes_of(admin: Admin) -> Nodes:
    return Nodes(admin.database, Ids(admin.database), admin.events)


async def told(admin: Admin, node: FakeSession) -> NodeTargets:
    """What a renewal hands to the sockets."""
    await admin.engine.leases.run_once()
    return admin.links.targets[node.node_id]


@pytest.mark.every_database
@pytest.mark.turned_clock(False)
async def test_a_cordoned_node_is_passed_over(database: Database) -> None:
    admin = Admin(database)
    executor_id = new_executor_id()
    node, other = [await admin.add_node(executor_id, name=name) for name in "ab"]
    job_id = await add_job(
        database, executor_id=executor_id, routing=RoutingPolicy(strategy=Routing.FAILOVER)
    )
    first = await ask(database, job_id)
    [request] = await admin.dispatch_all(node)
    await nodes_of(admin).cordon(ADMIN, node.node_id)

    second = await ask(database, job_id)
    assert await admin.dispatch_all(node) == []
    assert await states(database, first, second) == ["dispatched", "dispatched"]
    # Nor does a claim that chose it a moment before.
    took = await database.run(take_slots, {node.node_id: 1}, now=0)
    assert not took
    await admin.say(node, accepted(request), result(request))  # what it has goes on
    assert await in_use(database, node.node_id) == 0

    await nodes_of(admin).resume(ADMIN, node.node_id)
    third = await ask(database, job_id)
    assert [request.run for request in await admin.dispatch_all(node)] == [third]
    assert len(other.sent) == 1


async def test_a_cordon_is_no_news_for_the_node_but_a_drain_is(admin: Admin) -> None:
    node = await admin.add_node(1)
    nodes = nodes_of(admin)
    assert await told(admin, node) == NodeTargets()
    await nodes.cordon(ADMIN, node.node_id)
    assert await told(admin, node) == NodeTargets()
    await nodes.drain(ADMIN, node.node_id)
    assert await told(admin, node) == NodeTargets(drain=True)
    await nodes.resume(ADMIN, node.node_id)
    assert await told(admin, node) == NodeTargets()


async def test_a_resumed_node_is_told_so_before_it_is_given_runs(
    database: Database, admin: Admin
) -> None:
    """Else it would refuse them, and be passed over for a while."""
    node = await admin.add_node(1, slots=1)
    nodes, job_id = nodes_of(admin), await add_job(database)
    await nodes.drain(ADMIN, node.node_id)
    assert await told(admin, node) == NodeTargets(drain=True)
    assert (await nodes.get(ADMIN, node.node_id)).view.node.is_safe_to_stop
    run_id = await ask(database, job_id)
    assert await admin.dispatch_all(node) == []
    await nodes.resume(ADMIN, node.node_id)
    assert [each.run for each in await admin.dispatch_all(node)] == [run_id]
    assert admin.links.targets == {node.node_id: NodeTargets(drain=False)}
    assert not (await nodes.get(ADMIN, node.node_id)).view.node.is_safe_to_stop
    await nodes.drain(ADMIN, node.node_id)
    assert not (await nodes.get(ADMIN, node.node_id)).view.node.is_safe_to_stop  # it has a run
    await nodes.resume(ADMIN, node.node_id)
    # More slots are told as early.
    await nodes.set_slots(ADMIN, node.node_id, 2)
    await ask(database, job_id)
    assert len(await admin.dispatch_all(node)) == 1
    assert admin.links.targets == {node.node_id: NodeTargets(slots=2)}


async def test_slots_change_at_once_and_for_good(database: Database, admin: Admin) -> None:
    node = await admin.add_node(1, slots=1)
    job_id = await add_job(database)
    for after in range(6):
        await ask(database, job_id, after=after)
    assert len(await admin.dispatch_all(node)) == 1

    await nodes_of(admin).set_slots(ADMIN, node.node_id, 4)
    assert len(await admin.dispatch_all(node)) == 3
    assert await told(admin, node) == NodeTargets(slots=4)

    await nodes_of(admin).set_slots(ADMIN, node.node_id, 2)
    assert await admin.dispatch_all(node) == []
    assert await in_use(database, node.node_id) == 4  # what runs goes on

    # Its next socket, to whichever admin, begins with the operator's number.
    again = await admin.engine.membership.admit(
        Arrival(
            executor_id=1,
            node_key=await key_of(database, node.node_id),
            name="node",
            sdk="test/1",
            slots=1,
            handlers=["hello"],
            unstoppable=[],
            labels={},
            weight=1,
            address="",
        )
    )
    assert (again.node_id, again.slots) == (node.node_id, 2)
    slots = sa.select(tables.node.c.slots).where(tables.node.c.id == node.node_id)
    assert await database.read(lambda conn: conn.execute(slots).scalar_one()) == 2


async def key_of(database: Database, node_id: int) -> str:
    key = sa.select(tables.node.c.node_key).where(tables.node.c.id == node_id)
    return str(await database.read(lambda conn: conn.execute(key).scalar_one()))


async def test_every_admin_tells_the_nodes_it_hears(database: Database, admin: Admin) -> None:
    other = Admin(database, admin_id=2)
    await other.engine.membership.enter()
    node, elsewhere = await admin.add_node(1, name="a"), await other.add_node(1, name="b")
    for each in (node, elsewhere):
        await nodes_of(admin).drain(ADMIN, each.node_id)

    await admin.engine.leases.run_once()
    await other.engine.leases.run_once()

    assert admin.links.targets == {node.node_id: NodeTargets(drain=True)}
    assert other.links.targets == {elsewhere.node_id: NodeTargets(drain=True)}


async def test_an_admins_row_says_how_it_does(database: Database, admin: Admin) -> None:
    node = await admin.add_node(1)
    engine = admin.engine
    engine.leases._wall_clock = lambda: WALL_CLOCK
    await engine.leases._pass()
    await engine.sweeper._pass()
    engine.planner.failing = True
    engine.recorder.receive(node, [Held(runs=[])] * 3)
    await engine.leases._pass()

    row = await database.read(lambda conn: conn.execute(sa.select(tables.admin)).one())
    status = status_from_json(row.status)
    assert status.sessions == 1
    assert status.waiting == 3
    assert set(status.loops) == {
        "recorder",
        "leases",
        "sweeper",
        "dispatcher",
        "planner",
        "backfiller",
        "canaryretrier",
        "refresher",
        "cleaner",
        "rollup",
        "selfaudit",
        "alarmevaluator",
        "alarmdelivery",
        "herald",
        "windowplacer",
        "deadlineforecaster",
        "coveragewatcher",
    }
    assert status.loops["planner"].last_pass_ms_ago is None
    assert status.loops["planner"].failing
    assert not status.loops["sweeper"].failing
    assert (status.loops["sweeper"].last_pass_ms_ago or 0) >= 0
    assert status.clock_offset_ms == NOW - WALL_CLOCK
