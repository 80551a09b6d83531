"""The database's clock is set: an admin that cannot trust leases declares nobody dead (G10)."""

from __future__ import annotations

import pytest

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.rows import change
from tickwheel_admin.domain.executors.node import LEASE_MS
from tickwheel_admin.store.database import tables

pytestmark = [pytest.mark.turned_clock, pytest.mark.usefixtures("entered")]


HOUR_SECONDS = 3_600


@pytest.fixture
async def node(admin: Admin) -> FakeSession:
    """Of an admin whose sweeper has just seen that all is well."""
    node = await admin.add_node(1)
    await admin.engine.sweeper.run_once()
    return node


@pytest.fixture
def doubts(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(admin.engine.leases, "distrust_clock", found.append)
    return found


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_step_from_look_to_look_is_noticed_before_anybody_is_judged(
    admin: Admin, node: FakeSession, clock: Clock, doubts: list[str], hours: int
) -> None:
    clock.advance(hours * HOUR_SECONDS)
    await admin.engine.sweeper.run_once()
    assert doubts == ["leases.of_another_clock"]
    await admin.engine.sweeper.run_once()
    assert len(doubts) == 1  # it goes on from there


async def test_a_lease_that_was_over_before_the_last_look_is_of_another_clock(
    admin: Admin, node: FakeSession, clock: Clock, doubts: list[str]
) -> None:
    """Another admin renewed it while the clock was an hour behind, between two looks."""
    wrong = clock.now - HOUR_SECONDS * 1000 + LEASE_MS
    await change(admin.database, tables.node, node.node_id, lease_expires_at=wrong)
    await admin.engine.sweeper.run_once()
    assert doubts == ["leases.of_another_clock"]
    await admin.engine.sweeper.run_once()
    assert len(doubts) == 1  # if it stays over, it is over


async def test_a_lease_that_ends_raises_no_doubt(
    admin: Admin, node: FakeSession, clock: Clock, doubts: list[str]
) -> None:
    clock.advance(1)
    await change(admin.database, tables.node, node.node_id, lease_expires_at=clock.now - 500)
    await admin.engine.sweeper.run_once()
    assert doubts == []


async def test_who_doubts_declares_nobody_dead(
    admin: Admin, node: FakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = admin.engine.leases
    monkeypatch.setattr("tickwheel_admin.engine.membership.leases.STEADY_SECONDS", 0.0)
    await leases.run_once()
    assert leases.may_expire()
    leases.distrust_clock("leases.of_another_clock")
    assert not leases.may_expire()
    await leases.run_once()
    assert leases.may_expire()
