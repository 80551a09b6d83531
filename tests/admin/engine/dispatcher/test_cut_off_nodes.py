"""A node whose last socket has closed is live until its lease ends; runs do not wait for it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, new_executor_id
from tests.admin.kit.rows import add_job, ask, get_run
from tickwheel_admin.domain.routing.choice import choice_of
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.reasons import sentences
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import RunRequest


async def cut_off(database: Database, admin: Admin, node: FakeSession) -> None:
    """All sockets of the node to this admin close."""
    del admin.links.sessions[node.node_id]
    wanted = sa.select(tables.node_session.c.session_id).where(
        tables.node_session.c.node_id == node.node_id,
        tables.node_session.c.admin_id == admin.admin_id,
    )
    for session_id in await database.read(lambda conn: conn.execute(wanted).scalars().all()):
        await admin.engine.membership.disconnected(node_id=node.node_id, session_id=session_id)


@pytest.mark.parametrize("strategy", [Routing.FIRST, Routing.LEAST_BUSY])
async def test_its_runs_go_to_another_node_at_once(
    database: Database, admin: Admin, strategy: Routing
) -> None:
    executor_id = new_executor_id()
    first = await admin.add_node(executor_id, name="a")
    second = await admin.add_node(executor_id, name="b")
    routing = RoutingPolicy(strategy=strategy)
    job_id = await add_job(database, executor_id=executor_id, routing=routing)
    await cut_off(database, admin, first)
    run_id = await ask(database, job_id)

    await admin.engine.dispatcher.run_once()

    assert [request.run for request in second.take(RunRequest)] == [run_id]
    choice = choice_of((await get_run(database, run_id)).choice)
    assert choice is not None
    assert "The connection to a was lost." in [
        each.template % each.params for each in sentences(choice)
    ]


async def test_its_runs_wait_where_another_admin_hears_it(database: Database, admin: Admin) -> None:
    executor_id = new_executor_id()
    first = await admin.add_node(executor_id, name="a")
    await admin.add_node(executor_id, name="b")
    other = Admin(database, admin_id=new_executor_id())
    await other.engine.membership.enter()
    wanted = sa.select(tables.node.c.node_key).where(tables.node.c.id == first.node_id)
    node_key = await database.read(lambda conn: conn.execute(wanted).scalar_one())
    await other.add_node(executor_id, name="a", node_key=node_key)
    routing = RoutingPolicy(strategy=Routing.FIRST)
    job_id = await add_job(database, executor_id=executor_id, routing=routing)
    await cut_off(database, admin, first)
    run_id = await ask(database, job_id)

    await admin.engine.dispatcher.run_once()
    assert (await get_run(database, run_id)).state is RunState.QUEUED

    await other.engine.dispatcher.run_once()
    assert (await get_run(database, run_id)).node_id == first.node_id


async def test_runs_wait_as_they_are_while_no_other_node_takes_them(
    database: Database, admin: Admin
) -> None:
    executor_id = new_executor_id()
    only = await admin.add_node(executor_id, name="a")
    await admin.add_node(executor_id, name="b", handlers="other")
    job_id = await add_job(database, executor_id=executor_id)
    await cut_off(database, admin, only)
    run_id = await ask(database, job_id)
    await admin.engine.dispatcher.run_once()
    run = await get_run(database, run_id)
    assert (run.state, run.reason) == (RunState.QUEUED, None)
