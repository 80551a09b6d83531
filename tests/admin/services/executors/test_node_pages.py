"""The list of nodes of all executors: order, pages, filters, and who sees what."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.executors.nodes import NodeQuery, Nodes
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes

pytestmark = pytest.mark.every_database

SAID = (
    ("billing", "b-2", "python/1.4.0"),
    ("billing", "B-1", "python/1.4.0"),
    ("billing", "b-2", "python/1.3.2"),  # the name of another
    ("mail", "a_1", "python/1.4.0"),
    ("mail", "a%1", "go/0.1"),
)


@pytest.fixture
async def nodes(world: World) -> Nodes:
    """Five nodes with the ids 1 to 5; the first is dead."""
    made = {name: await world.executors.create(ADMIN, name=name) for name in ("billing", "mail")}
    arrivals = [
        Arrival(
            executor_id=made[executor].id,
            node_key=f"{number:032x}",
            name=name,
            sdk=sdk,
            slots=4,
            handlers=["report"],
            unstoppable=[],
            labels={},
            weight=1,
            address="192.0.2.1",
        )
        for number, (executor, name, sdk) in enumerate(SAID)
    ]
    ids = list(range(1, 6))
    await world.database.run(admit_nodes, arrivals, new_ids=ids, session_ids=ids, admin_id=1)

    def end(conn: sa.Connection) -> None:
        over: dict[str, Any] = {"state": NodeState.DEAD.value, "ended_at": 1}
        conn.execute(sa.update(tables.node).where(tables.node.c.id == 1).values(over))

    await world.database.run(end)
    return world.nodes


async def found(nodes: Nodes, **query: Any) -> list[int]:
    page = await nodes.page(ADMIN, NodeQuery(**query))
    return [each.view.node.id for each in page.items]


async def test_filters_find_their_nodes(nodes: Nodes, world: World) -> None:
    billing, mail = [each.id for each in await world.executors.list(ADMIN)]
    everything = await found(nodes)
    assert sorted(everything) == [1, 2, 3, 4, 5]
    assert sorted(await found(nodes, executor_id=mail)) == [4, 5]
    assert await found(nodes, executor_id=billing, state=NodeState.DEAD) == [1]
    assert sorted(await found(nodes, state=NodeState.LIVE)) == [2, 3, 4, 5]
    assert await found(nodes, version="1.3") == [3]
    assert await found(nodes, version="PYTHON", state=NodeState.LIVE, executor_id=mail) == [4]
    assert await found(nodes, text="b-1") == [2]
    assert await found(nodes, text="_") == [4]  # no placeholder
    assert await found(nodes, text="%") == [5]
    with pytest.raises(InvalidInput):
        await found(nodes, version="a\x00b")


async def test_pages_hold_each_node_once_and_in_one_order(nodes: Nodes) -> None:
    whole = await found(nodes)
    assert whole.index(1) + 1 == whole.index(3)  # of one name: by id
    for limit in (1, 2, 3):
        cursor, seen = None, []
        while True:
            page = await nodes.page(ADMIN, NodeQuery(), cursor=cursor, limit=limit)
            seen += [each.view.node.id for each in page.items]
            if (cursor := page.next) is None:
                break
        assert seen == whole
    with pytest.raises(InvalidInput):
        await nodes.page(ADMIN, NodeQuery(), cursor="WyJhIl0")


async def test_people_see_the_nodes_of_their_executors(nodes: Nodes, world: World) -> None:
    billing, mail = [each.id for each in await world.executors.list(ADMIN)]
    somebody = actor_with(Role.VIEWER, mail)
    page = await nodes.page(somebody, NodeQuery())
    assert {each.executor_name for each in page.items} == {"mail"}
    assert (await nodes.page(somebody, NodeQuery(executor_id=billing))).items == []
    await world.executors.delete(ADMIN, mail)
    assert {each.executor_name for each in (await nodes.page(ADMIN, NodeQuery())).items} == {
        "billing"
    }
