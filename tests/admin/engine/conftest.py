"""What tests of the engine have beside an admin and its node."""

from __future__ import annotations

import pytest

from tests.admin.kit.clock import NOW
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.rows import change
from tickwheel_admin.store.database import tables


@pytest.fixture
async def entered(admin: Admin) -> None:
    """The admin is in the cluster's books."""
    await admin.engine.membership.enter()


@pytest.fixture
async def node(node: FakeSession, admin: Admin, request: pytest.FixtureRequest) -> FakeSession:
    """Its lease never ends where a test turns the clock."""
    if request.node.get_closest_marker("turned_clock") is not None:
        await change(admin.database, tables.node, node.node_id, lease_expires_at=NOW * 2)
    return node


@pytest.fixture
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever must follow at once is not to be found by the look for what has stalled."""
    monkeypatch.setattr("tickwheel_admin.engine.sweeper.loop.REPAIR_SECONDS", float("inf"))
