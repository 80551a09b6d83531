"""What a node says of its code over its socket, and what it is told: never at its work's cost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.declared_code import MONTH_SCHEMA, NIGHTLY
from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job
from tests.admin.links.test_links import HELLO, KEY, Connect, Node, admin, connect, hub
from tests.support.polling import wait_until_async
from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.links import session as links_session
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import Notice, Welcome

__all__ = ["admin", "connect", "hub"]  # the fixtures

DECLARED = NIGHTLY | {"handler": "hello"}


async def say_hello(connect: Connect, **fields: Any) -> Node:
    node = connect()
    node.pipe.say(HELLO | fields)
    await node.heard(Welcome)
    return node


async def notice(node: Node) -> str:
    heard = await node.heard(Notice)
    assert isinstance(heard, Notice)
    return f"{heard.level.value}: {heard.text}"


async def has_gone(node: Node) -> None:
    node.pipe.to_admin.put_nowait(None)
    await node.serving


async def rows(database: Database, table: sa.Table) -> list[Any]:
    return await database.read(lambda conn: list(conn.execute(sa.select(table))))


async def test_jobs_and_schemas_of_a_hello_are_taken_in(
    connect: Connect, database: Database
) -> None:
    await add_job(database, name="other")
    node = await say_hello(
        connect, jobs=[DECLARED, {"name": "x"}], schemas={"hello": {"type": "object"}}
    )
    assert (
        await notice(node)
        == "error: the declared job 'x' cannot be used: handler: This is required."
    )
    assert await notice(node) == "info: jobs declared in code: created 'nightly'"
    assert [row.schema for row in await rows(database, tables.handler_schema)] == [
        '{"type":"object"}'
    ]
    assert len(await rows(database, tables.trigger)) == 1
    [stored] = await rows(database, tables.node)
    assert stored.declared == '["nightly","x"]'


async def test_a_node_that_says_nothing_is_not_looked_at(
    admin: Admin, connect: Connect, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[object] = []
    original = admin.engine.membership.read_manifest
    monkeypatch.setattr(
        admin.engine.membership,
        "read_manifest",
        lambda *said: looked.append(said) or original(*said),
    )
    await add_job(database)
    await has_gone(await say_hello(connect))
    assert looked == []

    async def said() -> int:
        return len(await rows(database, tables.handler_schema))

    node = await say_hello(connect, node_key="b" * 32, schemas={"hello": MONTH_SCHEMA})
    await wait_until_async(said, what="the schema is kept")
    assert len(looked) == 1
    # The next process takes anything: what the one before it said is to go.
    await has_gone(node)
    await say_hello(connect, node_key="c" * 32)

    async def is_gone() -> bool:
        return not await said()

    await wait_until_async(is_gone, what="the schema is gone")
    assert len(looked) == 2


async def test_the_database_may_be_away_for_a_while(
    admin: Admin, connect: Connect, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_job(database)
    monkeypatch.setattr(links_session, "LOOK_AGAIN_SECONDS", 0.0)
    original = admin.engine.membership.read_manifest
    answers = [Unavailable("database.unavailable", "Away."), Unavailable("x", "Away."), None]

    async def look(*said: Any) -> list[Notice]:
        if (error := answers.pop(0)) is not None:
            raise error
        return await original(*said)

    monkeypatch.setattr(admin.engine.membership, "read_manifest", look)
    node = await say_hello(connect, jobs=[DECLARED])
    assert await notice(node) == "info: jobs declared in code: created 'nightly'"


async def test_whatever_goes_wrong_the_node_is_served(
    admin: Admin, connect: Connect, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_job(database)

    async def look(*said: Any) -> list[Notice]:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(admin.engine.membership, "read_manifest", look)
    node = await say_hello(connect, jobs=[DECLARED])
    assert (await notice(node)).startswith("error: what this node declares in its code was not")
    node.pipe.say({"type": "held", "runs": []})
    async with asyncio.timeout(5):
        while not node.session.is_open:
            await admin.engine.recorder.run_once()
            await asyncio.sleep(0.005)


async def test_a_node_that_leaves_at_once_is_looked_at_when_it_comes_back(
    admin: Admin, connect: Connect, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_job(database)
    began = asyncio.Event()

    async def never_ends(*said: Any) -> list[Notice]:
        began.set()
        await asyncio.Event().wait()
        return []

    with monkeypatch.context() as patched:
        patched.setattr(admin.engine.membership, "read_manifest", never_ends)
        node = await say_hello(connect, jobs=[DECLARED])
        await began.wait()
        await has_gone(node)
    node = await say_hello(connect, jobs=[DECLARED])
    assert await notice(node) == "info: jobs declared in code: created 'nightly'"
    # And over a second socket of the same process, nothing is.
    [stored] = await rows(database, tables.node)
    assert (stored.node_key, stored.declared) == (KEY, '["nightly"]')


async def test_a_name_that_another_live_node_has_is_told(
    connect: Connect, database: Database
) -> None:
    await add_job(database)
    first = await say_hello(connect)
    second = await say_hello(connect, node_key="b" * 32)
    assert await notice(second) == (
        "warning: another live node of this executor is called 'node-1' too, at 192.0.2.1;"
        " give each its own name, or people cannot tell them apart"
    )
    await has_gone(second)
    await has_gone(first)
    # Both are dead, though their leases go on for some seconds: a restart is no second node.
    third = await say_hello(connect, node_key="c" * 32, jobs=[DECLARED])
    assert (await notice(third)).startswith("info: jobs declared")


@pytest.mark.parametrize(
    ("off_ms", "told"),
    [
        (60_000, "60 s ahead of"),
        (-45_000, "45 s behind"),
        (-3_600_000, "60 min behind"),
        (30 * 86_400_000, "720 h ahead of"),
    ],
)
async def test_a_clock_that_is_wrong_is_told(
    connect: Connect, database: Database, off_ms: int, told: str
) -> None:
    await add_job(database)
    at = await database.read(
        lambda conn: conn.execute(sa.select(tables.job.c.created_at)).scalar_one()
    )
    node = await say_hello(connect, clock=at + off_ms)
    heard = await notice(node)
    shown = heard.partition("this machine is ")[2].partition(" the database's")[0]
    # The test's own time between the two readings is a second or so.
    assert shown.split()[1:] == told.split()[1:]
    assert abs(int(shown.split()[0]) - int(told.split()[0])) <= 15


async def test_a_clock_that_is_nearly_right_is_not(connect: Connect, database: Database) -> None:
    await add_job(database)
    at = await database.read(
        lambda conn: conn.execute(sa.select(tables.job.c.created_at)).scalar_one()
    )
    node = await say_hello(connect, clock=at, jobs=[DECLARED])
    assert (await notice(node)).startswith("info: jobs declared")
