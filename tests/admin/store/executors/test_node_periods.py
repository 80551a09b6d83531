"""How a node was is kept when it changes, goes or dies, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock, turn_clock_of_server
from tests.admin.kit.services import World
from tickwheel_admin.domain.as_of.nodes import NodeEvent, node_changes, nodes_at
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.node_leases import expire_nodes, renew_leases
from tickwheel_admin.store.executors.node_periods import read_node_periods
from tickwheel_admin.store.executors.node_targets import set_cordon, set_slots, set_weight
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes, say_goodbye, set_draining

pytestmark = pytest.mark.every_database


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def world(store_url: str, clock: Clock) -> Iterator[World]:
    world = World(store_url, clock=clock, has_tables=True)
    turn_clock_of_server(world.database, clock)
    yield world
    world.close()


def _hello(world: World, node_id: int, *, slots: int = 4, key: str = "a") -> None:
    arrival = Arrival(
        executor_id=1, node_key=key, name=f"host {key}", sdk="t", slots=slots, handlers=["h"],
        unstoppable=[], labels={}, weight=1, address="",
    )  # fmt: skip
    world.database.run_sync(
        admit_nodes, [arrival], new_ids=[node_id], session_ids=[node_id], admin_id=1
    )


def test_a_node_as_it_was_at_each_time(world: World, clock: Clock) -> None:
    run = world.database.run_sync
    began = clock.now
    seen: list[tuple[int, list[tuple[int, int, bool]]]] = []

    def look() -> None:
        """Note how it is, and let a minute go by."""
        clock.advance(30)
        live = world.rows(sa.select(tables.node).where(tables.node.c.state == "live"))
        seen.append(
            (
                clock.now,
                sorted((row.id, row.slots, not (row.draining or row.cordoned)) for row in live),
            )
        )
        clock.advance(30)

    look()
    _hello(world, 1)
    look()
    _hello(world, 7)  # comes back as it was: nothing changes
    run(renew_leases, [1], admin_id=1)
    run(set_weight, 1, weight=3)
    run(set_cordon, 1, cordoned=False, drain=False)
    assert not world.rows(sa.select(tables.node_period))
    look()
    run(set_slots, 1, slots=9)
    look()
    run(set_draining, node_id=1, draining=True)
    _hello(world, 2, key="b", slots=2)
    look()
    run(set_cordon, 1, cordoned=True, drain=False)
    run(set_cordon, 1, cordoned=False, drain=False)  # in the same millisecond
    look()
    run(say_goodbye, node_id=1)
    look()
    clock.advance(3_600)
    assert run(expire_nodes) == [2]
    look()
    _hello(world, 9)  # the process of node 1 was only taken for gone
    look()
    for at, wanted in seen:
        periods = world.database.read_sync(read_node_periods, after=at, until=at, executors=None)
        found = [(each.node_id, each.slots, each.takes_runs) for each in nodes_at(periods, at)]
        assert sorted(found) == wanted
    periods = world.database.read_sync(
        read_node_periods, after=began, until=clock.now, executors=frozenset({1})
    )
    events = [(e.node_id, e.event) for e in node_changes(periods, after=began, until=clock.now)]
    assert [each for _, each in events].count(NodeEvent.CAME) == 3
    assert (2, NodeEvent.DEAD) in events
    assert (1, NodeEvent.GONE) in events
    of_nobody = frozenset({5})
    assert not world.database.read_sync(
        read_node_periods, after=began, until=clock.now, executors=of_nobody
    )


def test_a_clock_that_goes_back_breaks_nothing(world: World, clock: Clock) -> None:
    _hello(world, 1)
    clock.advance(-3_600)
    world.database.run_sync(set_slots, 1, slots=2)
    clock.advance(60)
    world.database.run_sync(set_slots, 1, slots=3)
    clock.advance(-60)
    world.database.run_sync(say_goodbye, node_id=1)
    rows = world.rows(sa.select(tables.node_period))
    assert all(row.from_at < row.until_at for row in rows)
