"""Where executors of the protocol `xxl_job` listen: which addresses are used, and for how long."""

from __future__ import annotations

import asyncio

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.rows import add_job, add_run, now
from tickwheel_admin.domain.executors.node import LEASE_MS
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.xxl_job.bridge import (
    MAX_KEPT,
    MAX_REGISTERED,
    AddressReport,
    ClientKind,
    Registration,
)
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import admin, xxl_address
from tickwheel_admin.store.executors.admins import enter_admin
from tickwheel_admin.store.xxl_job import addresses as store
from tickwheel_admin.store.xxl_job.executors import StoredXxlAddress, read_xxl_addresses

HOUR = 3_600.0
DAY = 24 * HOUR
ONE, TWO, THREE = (f"http://10.0.0.{n}:9999" for n in (1, 2, 3))


def registration(address: str, executor_id: int = 1) -> Registration:
    return Registration(executor_id=executor_id, address=address, client=ClientKind.JAVA)


async def register(database: Database, *addresses: str) -> list[bool]:
    return await database.run(store.register_addresses, [registration(each) for each in addresses])


async def rows(database: Database) -> dict[str, StoredXxlAddress]:
    return {each.address: each for each in await database.read(read_xxl_addresses)}


async def used(database: Database, since: int = 0) -> dict[str, bool]:
    """Those that are served; whether they are leaving."""
    found = await database.read(store.read_addresses, recording_since=since)
    return {each.address: each.is_leaving for each in found}


async def age(database: Database, seconds: float) -> None:
    """Let everything that was noted of addresses have been so much earlier."""

    def work(conn: sa.Connection) -> None:
        t = xxl_address.c
        earlier = {each: each - int(seconds * 1000) for each in (t.registered_at, t.removed_at)}
        conn.execute(
            sa.update(xxl_address).values({**earlier, t.beat_at: t.beat_at - int(seconds * 1000)})
        )

    await database.run(work)


def report(address: str, **values: object) -> AddressReport:
    given: dict[str, object] = {
        "executor_id": 1, "address": address, "node_id": None, "dialect": None,
        "beat_at_ms_ago": None, "calls": 1, "errors": 0, "error": None, "error_ms_ago": None,
    } | values  # fmt: skip
    return AddressReport(**given)  # type: ignore[arg-type]


@pytest.mark.every_database
async def test_registrations_and_reports_of_many_are_one_statement(database: Database) -> None:
    statements: list[str] = []

    def note(conn: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.lstrip().upper().startswith(("INSERT", "UPDATE")):
            statements.append(statement)

    await register(database, ONE)
    sa.event.listen(database.engine, "before_cursor_execute", note)
    assert await register(database, THREE, ONE, TWO, ONE) == [True] * 4
    assert len(statements) == 1
    await database.run(store.raise_incarnation, 1, TWO, 0)
    turns = [await database.run(store.begin_turn, 1, address) for address in (TWO, TWO, "gone")]
    assert turns == [1, 2, 0]
    await database.run(store.unregister_address, 1, THREE)
    assert await register(database, THREE, TWO) == [True, True]
    del statements[:]
    await database.run(
        store.note_addresses,
        [
            report(TWO, calls=3, errors=1, error="/run: no\0 answer", error_ms_ago=5, node_id=7),
            report("http://unknown:1"),
            report(ONE, dialect="B", beat_at_ms_ago=1_000),
        ],
    )
    assert len(statements) == 1
    await database.run(store.note_addresses, [report(TWO, calls=2), report(ONE)])
    found = await rows(database)
    assert sorted(found) == [ONE, TWO, THREE]
    two = found[TWO]
    assert (two.incarnation, two.calls, two.errors, two.error, two.node_id) == (
        1, 5, 1, "/run: no\ufffd answer", 7,
    )  # fmt: skip
    one = found[ONE]
    assert (one.dialect, one.calls, one.error) == ("B", 2, None)
    assert one.beat_at is not None
    assert found[THREE].removed_at is None


@pytest.mark.every_database
async def test_admins_that_write_the_same_rows_do_not_hold_each_other_up(
    database: Database,
) -> None:
    known = [f"http://10.0.1.{n}:9999" for n in range(100)]
    await register(database, *known[::2])

    async def one_admin(order: int) -> None:
        for _ in range(3):
            assert all(await register(database, *known[::order]))
            await database.run(
                store.note_addresses, [report(each, calls=1) for each in known[::-order]]
            )

    await asyncio.gather(*(one_admin(order) for order in (1, -1, 1, -1)))
    found = await rows(database)
    assert len(found) == 100
    assert {each.calls for each in found.values()} == {12}


@pytest.mark.turned_clock
async def test_silence_counts_only_while_registrations_can_be_recorded(
    database: Database, clock: Clock
) -> None:
    await register(database, ONE)
    clock.advance(89)
    assert await used(database) == {ONE: False}
    clock.advance(2)
    assert await used(database) == {ONE: True}
    clock.advance(10 * HOUR)  # the database is down, or every admin
    assert await used(database) == {}
    assert await used(database, clock.now) == {ONE: False}
    since = clock.now
    clock.advance(60)
    assert await used(database, since) == {ONE: False}
    await register(database, TWO)
    clock.advance(40)
    assert await used(database, since) == {ONE: True, TWO: False}
    clock.advance(HOUR - 50)
    assert await used(database, since) == {TWO: True}


@pytest.mark.every_database
async def test_an_address_that_answers_or_has_runs_is_served(database: Database) -> None:
    job_id = await add_job(database)
    await add_run(database, job_id, state=RunState.RUNNING, node_id=7)
    await register(database, ONE, TWO, THREE)
    await database.run(store.unregister_address, 1, THREE)
    await database.run(store.note_addresses, [report(THREE, node_id=7)])

    await age(database, 2 * HOUR)
    await database.run(store.note_addresses, [report(ONE, beat_at_ms_ago=0)])
    assert await used(database) == {ONE: True, THREE: True}
    await age(database, 2 * DAY)
    await database.run(store.note_addresses, [report(ONE, beat_at_ms_ago=0)])
    await database.run(store.forget_addresses, recording_since=await now(database))
    assert sorted(await rows(database)) == [ONE, TWO, THREE]
    await database.run(store.forget_addresses)
    assert sorted(await rows(database)) == [ONE, THREE]
    await database.run(store.raise_incarnation, 1, THREE, 0)  # its runs are lost
    await database.run(store.forget_addresses)
    assert sorted(await rows(database)) == [ONE]


@pytest.mark.every_database
async def test_pods_that_come_and_go_do_not_shut_an_executor_out(database: Database) -> None:
    def pods(of: int) -> list[str]:
        return [f"http://10.9{of}.{n // 200}.{n % 200}:9999" for n in range(MAX_REGISTERED)]

    assert all(await register(database, *pods(0)))
    assert await register(database, ONE, pods(0)[3]) == [False, True]  # these are in use
    for of in range(1, 4):
        await age(database, 100)
        assert all(await register(database, *pods(of)))
        assert len(await rows(database)) <= MAX_KEPT
    found = await rows(database)
    assert set(found) == {*pods(2), *pods(3)}  # the oldest went
    await age(database, 100)
    assert await register(database, ONE) == [True]
    assert ONE in await rows(database)


@pytest.mark.every_database
async def test_only_admins_that_said_what_they_serve_are_owners(database: Database) -> None:
    for admin_id in (1, 2, 3):
        await database.run(
            enter_admin, admin_id=admin_id, name=f"a{admin_id}", url="http://a", version="1"
        )
    await database.run(store.tell_unreadable, admin_id=1, executor_ids=[])
    await database.run(store.tell_unreadable, admin_id=3, executor_ids={9, 4})
    assert await database.read(store.serving_admins) == {1: frozenset(), 3: frozenset({4, 9})}
    # Entered again, as after a freeze, it has said nothing yet.
    await database.run(enter_admin, admin_id=3, name="a3", url="http://a", version="1")
    assert await database.read(store.serving_admins) == {1: frozenset()}


@pytest.mark.every_database
async def test_an_admin_that_died_is_missed_before_its_nodes_are_dead(database: Database) -> None:
    """Somebody else has to beat them before the lease ends that it renewed last."""
    await database.run(enter_admin, admin_id=1, name="a1", url="http://a", version="1")
    await database.run(store.tell_unreadable, admin_id=1, executor_ids=[])

    def silent_for(conn: sa.Connection, ms: int) -> None:
        conn.execute(sa.update(admin).values(lease_expires_at=now_ms(conn) + LEASE_MS - ms))

    await database.run(silent_for, 4_000)
    assert await database.read(store.serving_admins) == {1: frozenset()}
    await database.run(silent_for, LEASE_MS // 2)
    assert await database.read(store.serving_admins) == {}
