"""Many nodes come and go at once: in few transactions, and each as if it were alone."""

from __future__ import annotations

import asyncio
import resource
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, new_executor_id
from tickwheel_admin.cli.serve import allow_sockets
from tickwheel_admin.domain.executors.node import CLOSED_LEASE_MS, LEASE_MS
from tickwheel_admin.engine.membership import leases
from tickwheel_admin.engine.membership.membership import NODES_PER_BATCH
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import node, node_session
from tickwheel_admin.store.executors.node_leases import end_sessions, renew_leases
from tickwheel_admin.store.executors.nodes import Arrival
from tickwheel_admin.store.executors.tokens import executors_of_tokens

pytestmark = pytest.mark.every_database


@pytest.fixture
async def admin(database: Database) -> Admin:
    admin = Admin(database, admin_id=new_executor_id())
    await admin.engine.membership.enter()
    return admin


def arrival(executor_id: int, number: int, **changes: Any) -> Arrival:
    said = Arrival(
        executor_id=executor_id,
        node_key=f"{number:032x}",
        name=f"node-{number}",
        sdk="test/1",
        slots=number,
        handlers=["b", "a"],
        unstoppable=[],
        labels={"zone": "eü"},
        weight=1,
        address=f"192.0.2.{number}",
    )
    return replace(said, **changes)


async def rows_of(database: Database, *executor_ids: int) -> dict[int, Any]:
    wanted = sa.select(node).where(node.c.executor_id.in_(executor_ids)).order_by(node.c.id)
    return await database.read(lambda conn: {row.id: row for row in conn.execute(wanted)})


async def sessions_of(database: Database, admin: Admin) -> dict[int, int]:
    """Node by session."""
    wanted = sa.select(node_session.c.session_id, node_session.c.node_id).where(
        node_session.c.admin_id == admin.admin_id
    )
    return await database.read(
        lambda conn: {row.session_id: row.node_id for row in conn.execute(wanted)}
    )


async def test_a_crowd_is_admitted_in_few_transactions(
    admin: Admin, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = new_executor_id(), new_executor_id()
    membership = admin.engine.membership
    before = await membership.admit(arrival(one, 1, slots=99))
    await database.run(
        lambda conn: conn.execute(
            sa.update(node)
            .where(node.c.id == before.node_id)
            .values(state="dead", ended_at=5, slots_wanted=7, in_use=3)
        )
    )
    now = await database.read(now_ms)
    transactions = []
    run_sync = Database.run_sync

    def counted(self: Database, work: Any, *args: Any, **kwargs: Any) -> Any:
        transactions.append(work.__name__)
        return run_sync(self, work, *args, **kwargs)

    monkeypatch.setattr(Database, "run_sync", counted)
    arrivals = [
        *(arrival(one, number) for number in range(1, NODES_PER_BATCH + 11)),
        arrival(other, 1),  # the same key, at another executor
        arrival(one, 5, slots=55),  # the same process once more, over a newer socket
    ]
    admitted = await asyncio.gather(*map(membership.admit, arrivals))

    assert transactions.count("_admit") == 2
    rows = await rows_of(database, one, other)
    assert len(rows) == len(arrivals) - 1
    for said, each in zip(arrivals[:-2], admitted[:-2], strict=True):
        row = rows[each.node_id]
        assert (row.name, row.address, row.labels) == (said.name, said.address, '{"zone":"eü"}')
        assert (row.state, row.ended_at, row.handlers) == ("live", None, '["a","b"]')
        assert row.lease_expires_at == row.full_lease_at >= now + LEASE_MS
    assert admitted[0].node_id == before.node_id  # who was known stays who it was
    assert (admitted[0].slots, rows[before.node_id].slots) == (7, 7)
    assert rows[before.node_id].in_use == 3
    assert rows[admitted[-2].node_id].executor_id == other
    assert admitted[-1].node_id == admitted[4].node_id
    assert rows[admitted[4].node_id].slots == 55
    sessions = await sessions_of(database, admin)
    assert sessions == {
        each.session_id: each.node_id for each in admitted if each is not admitted[4]
    }


async def test_a_crowd_that_comes_to_two_admins_at_once_is_stored_without_a_deadlock(
    admin: Admin, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_ids = sorted(new_executor_id() for _ in range(2))
    inserted = []

    def watched(conn: sa.Connection, table: sa.Table, rows: list[Any], **rest: Any) -> None:
        inserted.extend((row["executor_id"], row["node_key"]) for row in rows)
        insert_rows(conn, table, rows, **rest)

    monkeypatch.setattr("tickwheel_admin.store.executors.nodes.insert_rows", watched)
    arrivals = [arrival(each, n) for each in reversed(executor_ids) for n in (3, 1, 2)]
    await asyncio.gather(*map(admin.engine.membership.admit, arrivals))
    # A row that two transactions insert makes one wait: all have to come to them in one order.
    assert len(inserted) == 6
    assert inserted == sorted(inserted)


async def test_nodes_of_one_name_are_told_of_each_other(admin: Admin, database: Database) -> None:
    executor_id = new_executor_id()
    membership = admin.engine.membership
    first = await membership.admit(arrival(executor_id, 1, name="twin"))
    assert first.notices == []
    second, third, alone = await asyncio.gather(
        membership.admit(arrival(executor_id, 2, name="twin")),
        membership.admit(arrival(executor_id, 3, name="twin")),
        membership.admit(arrival(executor_id, 4)),
    )
    assert alone.notices == []
    assert "192.0.2.1, 192.0.2.3;" in second.notices[0].text
    assert "192.0.2.1, 192.0.2.2;" in third.notices[0].text
    again = await membership.admit(arrival(executor_id, 2, name="twin"))
    assert not again.notices  # it was told at its first hello


async def test_leases_of_a_crowd_are_shortened_unless_somebody_hears_the_node(
    admin: Admin, database: Database
) -> None:
    executor_id = new_executor_id()
    other, dead = (Admin(database, admin_id=new_executor_id()) for _ in range(2))
    await other.engine.membership.enter()
    here = [await admin.engine.membership.admit(arrival(executor_id, n)) for n in range(1, 6)]
    unheard, heard, forgotten, replaced, stays = here
    await other.engine.membership.admit(arrival(executor_id, 2))
    await dead.engine.membership.admit(arrival(executor_id, 3))  # which never entered
    newer = await admin.engine.membership.admit(arrival(executor_id, 4))
    ended = {each.session_id: each.node_id for each in here if each is not stays}

    await database.run(end_sessions, ended)

    now = await database.read(now_ms)
    rows = await rows_of(database, executor_id)
    left = {each.node_id: rows[each.node_id].lease_expires_at - now for each in here}
    for each in (unheard, forgotten):
        assert left[each.node_id] <= CLOSED_LEASE_MS
        assert rows[each.node_id].full_lease_at > now + CLOSED_LEASE_MS
    for each in (heard, replaced, stays):
        assert left[each.node_id] > CLOSED_LEASE_MS
    sessions = await sessions_of(database, admin)
    assert sessions == {each.session_id: each.node_id for each in (newer, stays)}

    ids = [each.node_id for each in here]
    renewed = await database.run(renew_leases, ids, admin_id=admin.admin_id)
    assert renewed.keys() == {newer.node_id, stays.node_id}  # nobody else's sockets are ours


async def test_a_crowd_parts_in_few_transactions(
    admin: Admin, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor_id = new_executor_id()
    membership = admin.engine.membership
    here = await asyncio.gather(*(membership.admit(arrival(executor_id, n)) for n in range(1, 40)))
    batches = []

    def counted(conn: sa.Connection, sessions: dict[int, int]) -> None:
        batches.append(len(sessions))
        end_sessions(conn, sessions)

    monkeypatch.setattr("tickwheel_admin.engine.membership.membership.end_sessions", counted)
    await asyncio.gather(
        *(
            membership.disconnected(node_id=each.node_id, session_id=each.session_id)
            for each in here
        )
    )
    assert sum(batches) == 39
    assert len(batches) <= 2
    assert await sessions_of(database, admin) == {}


async def test_leases_of_a_crowd_are_renewed_a_part_at_a_time(
    admin: Admin, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise claims wait until the rows of all nodes are written."""
    here = [await admin.add_node(new_executor_id(), name=f"node-{n}") for n in range(5)]
    expired = {each.node_id for each in here}
    ended = sa.update(node).where(node.c.id.in_(expired)).values(lease_expires_at=1)
    await database.run(lambda conn: conn.execute(ended).close())
    renewed: list[list[int]] = []
    acknowledged: list[list[int]] = []

    def counted(conn: sa.Connection, ids: list[int], *, admin_id: int) -> Any:
        renewed.append(list(ids))
        return renew_leases(conn, ids, admin_id=admin_id)

    monkeypatch.setattr(leases, "renew_leases", counted)
    monkeypatch.setattr(leases, "RENEWED_AT_ONCE", 2)
    monkeypatch.setattr(leases, "ACKNOWLEDGED_AT_ONCE", 3)
    monkeypatch.setattr(admin.links, "acknowledge", lambda some: acknowledged.append(list(some)))
    await admin.engine.leases.run_once()
    now = await database.read(now_ms)
    ids = sorted(expired)
    assert renewed == [ids[:2], ids[2:4], ids[4:]]
    assert acknowledged == [ids[:3], ids[3:]]
    later = sa.select(node.c.lease_expires_at).where(node.c.id.in_(expired))
    rows = await database.read(lambda conn: conn.execute(later).scalars().all())
    assert all(at > now for at in rows)


async def test_no_part_is_renewed_any_more_by_an_admin_that_was_declared_dead(
    admin: Admin, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [await admin.add_node(new_executor_id(), name=f"node-{n}") for n in range(5)]
    parts = []
    acknowledged: list[int] = []

    def declared_dead_meanwhile(conn: sa.Connection, ids: list[int], *, admin_id: int) -> Any:
        parts.append(ids)
        gone = sa.delete(tables.admin).where(tables.admin.c.id == admin_id)
        conn.execute(gone).close()
        return renew_leases(conn, ids, admin_id=admin_id)

    monkeypatch.setattr(leases, "renew_leases", declared_dead_meanwhile)
    monkeypatch.setattr(leases, "RENEWED_AT_ONCE", 2)
    monkeypatch.setattr(admin.links, "acknowledge", acknowledged.extend)
    await admin.engine.leases.run_once()
    assert len(parts) == 2  # the second one found that out
    assert not acknowledged
    assert {each.node_id for each in here} <= set(admin.links.disconnected)


async def test_tokens_that_open_nothing_are_left_out(database: Database) -> None:
    assert await database.read(executors_of_tokens, ["no such token", "nor this"]) == {}
    assert await database.read(executors_of_tokens, []) == {}


def test_an_admin_may_hold_as_many_sockets_as_the_system_allows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard - 1), hard))
        allow_sockets()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
