"""Clocks of nodes that are far off are in the status of the admin they are connected to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.admin.kit.engine import Admin
from tickwheel_admin.domain.admin_status import status_from_json
from tickwheel_admin.engine.membership.clocks import MOST_TOLD, NodeClocks
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.doctor.installation import clocks_of_nodes
from tickwheel_admin.store.executors.admins import enter_admin, renew_admin
from tickwheel_admin.store.executors.executors import add_executor
from tickwheel_admin.store.executors.nodes import Arrival

ARRIVAL = Arrival(
    executor_id=1,
    node_key="0" * 32,
    name="late",
    sdk="test/1",
    slots=1,
    handlers=[],
    unstoppable=[],
    labels={},
    weight=1,
    address="",
)


def told(admin: Admin) -> Any:
    return dict(status_from_json(admin.engine.status()).node_clocks)


async def test_the_doctor_finds_nodes_that_connected_with_a_wrong_clock(
    admin: Admin, database: Database
) -> None:
    now = await database.read(now_ms)
    await database.run(
        add_executor, executor_id=1, name="shop", description="", token_hash="0", now=now
    )
    arrival = replace(ARRIVAL, clock=now - 3_600_000)
    late = await admin.engine.membership.admit(arrival)
    others = [
        await admin.engine.membership.admit(
            replace(arrival, node_key=f"{number:032x}", name=f"node-{number}", clock=clock)
        )
        for number, clock in enumerate((now, None), 1)
    ]
    assert list(told(admin)) == [late.node_id]
    assert abs(told(admin)[late.node_id] + 3_600_000) < 30_000  # the test's own time

    await database.run(
        enter_admin, admin_id=admin.admin_id, name="one", url="http://a", version="1"
    )
    await database.run(renew_admin, admin_id=admin.admin_id, status=admin.engine.status())
    assert await database.read(clocks_of_nodes, now=now) == {"shop/late": told(admin)[late.node_id]}
    assert others[0].clock_offset_ms is not None
    assert others[1].clock_offset_ms is None

    again = await admin.engine.membership.admit(arrival)  # a new socket of the same process
    await admin.engine.membership.disconnected(node_id=late.node_id, session_id=late.session_id)
    assert list(told(admin)) == [again.node_id]
    await admin.engine.membership.disconnected(node_id=late.node_id, session_id=again.session_id)
    assert told(admin) == {}


def test_a_clock_that_was_set_right_is_forgotten_and_the_worst_are_told() -> None:
    clocks = NodeClocks()
    for node_id in range(100):
        clocks.note(node_id, session_id=1, offset_ms=-60_000 - node_id)
    clocks.note(99, session_id=2, offset_ms=5)
    assert list(clocks.worst()) == list(range(98, 98 - MOST_TOLD, -1))
