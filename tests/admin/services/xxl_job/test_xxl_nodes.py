"""Executors of the protocol `xxl_job` in a cluster: each address has an admin that can serve it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.domain.xxl_job.bridge import ClientKind, XxlAddress
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.xxl_job import nodes as service
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import DatabaseUnavailable
from tickwheel_admin.store.executors.admins import enter_admin
from tickwheel_admin.xxl_job.addresses import AddressGuard
from tickwheel_admin.xxl_job.callbacks import NotRecorded, Taken
from tickwheel_admin.xxl_job.inbound import CallerRefused, Inbound
from tickwheel_admin.xxl_job.registrar import XxlRegistrar

ADDRESSES = [f"http://10.0.0.{n}:9999" for n in range(1, 31)]
OTHER_KEY = b"o" * 32


class Node:
    """Nothing is called."""

    node_id = 0

    def __init__(self, address: XxlAddress) -> None:
        self.calls = self
        self.address = address
        self.dialect: Any = None

    def update(self, address: XxlAddress, executor: object) -> None:
        self.address = address

    def report(self, node_id: int | None) -> None:
        return None

    async def stop(self) -> None:
        pass


def registrar(world: World, admin_id: int, cipher: Cipher) -> XxlRegistrar:
    world.database.run_sync(
        enter_admin, admin_id=admin_id, name=f"a{admin_id}", url="http://a", version="1"
    )
    return XxlRegistrar(
        XxlNodes(world.database, world.events, cipher),
        admin_id=admin_id,
        new_node=lambda address, executor: Node(address),  # type: ignore[arg-type,return-value]
    )


def served(one: XxlRegistrar) -> set[str]:
    return {each.address.address for each in one}


async def add(world: World, name: str, token: str, **other: object) -> int:
    given = {"name": name, "app_name": f"{name}-executor", "token": token, **other}
    return await world.xxl_executors.create(ADMIN, **given)  # type: ignore[arg-type]


async def test_addresses_belong_to_admins_that_can_serve_them(world: World) -> None:
    await add(world, "orders", "a-token-of-orders", addresses=ADDRESSES)
    able, wrong_key = registrar(world, 1, world.cipher), registrar(world, 2, Cipher([OTHER_KEY]))
    # Of a version that knows nothing of this protocol.
    world.database.run_sync(enter_admin, admin_id=3, name="a3", url="http://a", version="0")
    for each in (able, wrong_key, able):
        await each.run_once()
    assert served(able) == set(ADDRESSES)
    assert served(wrong_key) == set()
    repaired = registrar(world, 2, world.cipher)
    for each in (repaired, able):
        await each.run_once()
    assert served(able) | served(repaired) == set(ADDRESSES)
    assert served(able)
    assert served(repaired)
    assert not served(able) & served(repaired)


async def test_who_cannot_read_a_token_does_not_call_it_wrong(world: World) -> None:
    class Callbacks:
        foreign: frozenset[int] = frozenset()

        async def take(self, *args: object, **other: object) -> Taken:
            return Taken(0, 0, len(self.foreign), self.foreign)

    orders = await add(world, "orders", "a-token-of-orders")
    one = registrar(world, 1, Cipher([OTHER_KEY]))
    callbacks = Callbacks()
    inbound = Inbound(one._nodes, one, callbacks, AddressGuard(), None)  # type: ignore[arg-type]
    await one.run_once()
    with pytest.raises(NotRecorded):
        await inbound.shown_by("a-token-of-orders", None)
    # Its own token it reads; the runs of the other it leaves to other admins.
    callbacks.foreign = frozenset({orders})
    with pytest.raises(NotRecorded):
        await inbound.report([], [], ClientKind.JAVA, note=lambda refused: None)
    callbacks.foreign = frozenset({orders + 1})
    told: list[CallerRefused] = []
    await inbound.report([], [], ClientKind.JAVA, note=told.append)
    assert [each.kind for each in told] == ["foreign_run"]
    two = registrar(world, 1, world.cipher)
    inbound = Inbound(two._nodes, two, callbacks, AddressGuard(), None)  # type: ignore[arg-type]
    await two.run_once()
    assert [each.id for each in await inbound.shown_by("a-token-of-orders", None)] == [orders]
    with pytest.raises(CallerRefused):
        await inbound.shown_by("another", None)


async def test_an_outage_kills_no_node(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    executor_id = await add(world, "orders", "a-token-of-orders")
    now = world.now

    def quiet_for(seconds: int) -> None:
        table = tables.xxl_address
        world.change(
            sa.delete(table),
            sa.insert(table).values(
                executor_id=executor_id,
                address=ADDRESSES[0],
                registered_at=now - seconds * 1000,
            ),
        )

    quiet_for(90_000)
    one = registrar(world, 1, world.cipher)
    await one.run_once()  # every admin was down
    (node,) = one
    assert not node.address.is_leaving
    nodes = one._nodes
    nodes._recording_since = 0
    await one.run_once()
    assert served(one) == set()  # it was silent while registrations were recorded
    with monkeypatch.context() as patch:
        patch.setattr(service, "OUTAGE_SECONDS", -1.0)  # the database was down
        await one.run_once()
        assert served(one) == {ADDRESSES[0]}
    nodes._recording_since = 0

    async def refuse(*args: object, **other: object) -> None:
        raise DatabaseUnavailable("read only")

    with monkeypatch.context() as patch:
        patch.setattr(world.database, "run", refuse)
        with pytest.raises(DatabaseUnavailable):
            await nodes.register([])
    await one.run_once()
    assert served(one) == {ADDRESSES[0]}
