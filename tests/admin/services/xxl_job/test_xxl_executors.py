"""Executors of the protocol `xxl_job`: adding and changing them, and what of the SDK they lack."""

from __future__ import annotations

import asyncio
import json

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, World, actor_with
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.domain.runs.blocking import WhenCutOff
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.xxl_job.service import XxlExecutors
from tickwheel_admin.services.xxl_job.tokens import decrypt_token
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.nodes import Arrival, admit_nodes
from tickwheel_admin.store.xxl_job.executors import get_xxl_executor

ONE, TWO = "http://10.0.0.1:9999", "http://10.0.0.2:9999"
TOKEN = "an-access-token-of-orders"


async def add(world: World, **other: object) -> int:
    given = {"name": "orders", "app_name": "orders-executor", "token": TOKEN, **other}
    return await world.xxl_executors.create(ADMIN, **given)  # type: ignore[arg-type]


def token_of(world: World, executor_id: int) -> str:
    stored = world.database.read_sync(lambda conn: get_xxl_executor(conn, executor_id))
    assert stored is not None
    return decrypt_token(world.cipher, stored)


def execute(world: World, statement: sa.Executable) -> None:
    def work(conn: sa.Connection) -> None:
        conn.execute(statement)

    world.database.run_sync(work)


def add_node(world: World, executor_id: int, address: str) -> int:
    """A live node that is called at the address."""

    def work(conn: sa.Connection) -> int:
        arrival = Arrival(
            executor_id=executor_id, node_key="0" * 32, name="10.0.0.1:9999", sdk="xxl-job",
            slots=10, handlers=[ANY_HANDLER], unstoppable=[ANY_HANDLER], labels={}, weight=1,
            address="10.0.0.1",
        )  # fmt: skip
        (stored,) = admit_nodes(conn, [arrival], new_ids=[77], session_ids=[1], admin_id=1)
        conn.execute(
            sa.update(tables.xxl_address)
            .where(tables.xxl_address.c.address == address)
            .values(node_id=stored.node_id, dialect="A", calls=3)
        )
        return stored.node_id

    return world.database.run_sync(work)


@pytest.mark.every_database
async def test_its_token_is_encrypted_and_told_nobody(world: World) -> None:
    executor_id = await add(world, addresses=[ONE + "/", TWO])

    view = await world.xxl_executors.get(ADMIN, executor_id)
    assert (view.app_name, view.addresses) == ("orders-executor", (ONE, TWO))
    assert [each.address for each in view.known] == [ONE, TWO]
    assert (view.has_default_token, view.token_is_unreadable) == (False, False)
    assert token_of(world, executor_id) == TOKEN
    (audit,) = world.rows(sa.select(tables.audit))
    assert audit.action == "executor.created"
    assert json.loads(audit.detail)["protocol"] == "xxl_job"
    everything = [
        str(row) for table in tables.metadata.sorted_tables for row in world.rows(sa.select(table))
    ]
    assert TOKEN not in "".join(everything) + repr(view)
    (item,) = await world.executors.list(ADMIN)
    assert item.protocol is Protocol.XXL_JOB


@pytest.mark.every_database
async def test_what_is_changed_is_audited_without_the_token(world: World) -> None:
    executor_id = await add(world)
    change = world.xxl_executors.change

    await change(ADMIN, executor_id, token="another-token")
    await change(ADMIN, executor_id, app_name="orders-2", addresses=[ONE])
    await change(ADMIN, executor_id, app_name="orders-2")  # nothing changes

    assert token_of(world, executor_id) == "another-token"
    view = await world.xxl_executors.get(ADMIN, executor_id)
    assert (view.app_name, view.addresses) == ("orders-2", (ONE,))
    details = [json.loads(row.detail) for row in world.rows(sa.select(tables.audit.c.detail))][1:]
    assert [each["changed"] for each in details] == [["token"], ["app_name", "addresses"]]
    assert "another-token" not in str(details)

    await change(ADMIN, executor_id, registers=True)
    assert (await world.xxl_executors.get(ADMIN, executor_id)).addresses is None


@pytest.mark.every_database
async def test_an_app_name_belongs_to_one_executor(world: World) -> None:
    results = await asyncio.gather(
        *(add(world, name=f"orders-{n}") for n in range(3)), return_exceptions=True
    )
    errors = [each for each in results if isinstance(each, BaseException)]
    assert {getattr(each, "code", each) for each in errors} == {"executor.app_name_taken"}
    (kept,) = [each for each in results if isinstance(each, int)]

    await world.executors.delete(ADMIN, kept)
    other = await add(world)
    assert world.rows(sa.select(tables.xxl_executor.c.executor_id)) == [(other,)]


async def test_every_problem_is_told_at_once(world: World) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await add(world, name="Orders!", app_name="o", token="", addresses=["nonsense"])

    assert [each.field for each in refusal.value.problems] == [
        "name", "xxl_job.app_name", "xxl_job.token", "xxl_job.addresses[0]",
    ]  # fmt: skip


async def test_without_a_key_nothing_is_stored(world: World) -> None:
    keyless = XxlExecutors(world.database, Ids(world.database), world.events, Cipher())

    with pytest.raises(Conflict) as refusal:
        await keyless.create(ADMIN, name="orders", app_name="orders", token=TOKEN)

    assert refusal.value.code == "secret_key.missing"
    assert world.audit() == []
    executor_id = await add(world)
    assert (await keyless.get(ADMIN, executor_id)).token_is_unreadable


async def test_the_token_that_everybody_has_is_taken_with_a_warning(world: World) -> None:
    executor_id = await add(world, token="default_token")

    assert (await world.xxl_executors.get(ADMIN, executor_id)).has_default_token


async def test_an_address_is_forgotten_once_nobody_answers_there(world: World) -> None:
    executor_id = await add(world, addresses=[ONE, TWO])
    node_id = add_node(world, executor_id, TWO)
    remove = world.xxl_executors.remove_address

    with pytest.raises(Conflict, match="set by hand"):
        await remove(ADMIN, executor_id, TWO)
    await world.xxl_executors.change(ADMIN, executor_id, addresses=[ONE])
    with pytest.raises(Conflict, match="A process answers"):
        await remove(ADMIN, executor_id, TWO)
    with pytest.raises(NotFound):
        await remove(ADMIN, executor_id, "http://10.9.9.9")
    execute(
        world,
        sa.update(tables.node).where(tables.node.c.id == node_id).values(state="gone", ended_at=1),
    )
    await remove(ADMIN, executor_id, TWO)

    view = await world.xxl_executors.get(ADMIN, executor_id)
    assert [each.address for each in view.known] == [ONE]
    assert world.audit()[-1] == ("executor.xxl_address_removed", executor_id)


async def test_only_administrators_change_it(world: World) -> None:
    executor_id = await add(world)
    developer = actor_with(Role.DEVELOPER, executor_id)

    with pytest.raises(NotAllowed):
        await world.xxl_executors.change(developer, executor_id, token="x")
    with pytest.raises(NotAllowed):
        await world.xxl_executors.remove_address(developer, executor_id, ONE)
    with pytest.raises(NotFound):
        await world.xxl_executors.get(actor_with(Role.ADMIN, executor_id + 1), executor_id)
    assert (await world.xxl_executors.get(developer, executor_id)).app_name == "orders-executor"


async def test_what_belongs_to_the_sdk_is_refused(world: World) -> None:
    executor_id = await add(world)
    declared = DeclaredJobs(world.database, Ids(world.database), world.events)

    for refused in (
        world.executors.rotate_token(ADMIN, executor_id),
        world.executors.revoke_old_token(ADMIN, executor_id),
        declared.set_policy(ADMIN, executor_id, "ask"),
    ):
        with pytest.raises(Conflict) as refusal:
            await refused
        assert refusal.value.code == "executor.other_protocol"
    own = await world.executor("billing")
    with pytest.raises(Conflict, match="connect with the SDK"):
        await world.xxl_executors.change(ADMIN, own, token="x")
    with pytest.raises(Conflict, match="connect with the SDK"):
        await world.xxl_executors.get(ADMIN, own)


async def test_its_jobs_take_one_text_and_any_handler(world: World) -> None:
    executor_id = await add(world, addresses=[ONE])
    add_node(world, executor_id, ONE)
    job = {"name": "sync", "handler": "syncOrders", "parameters": {"param": "a=1"}}

    job_id = await world.jobs.create(ADMIN, executor_id, {**job, "blocking": "serial"})
    with pytest.raises(InvalidInput, match="params"):
        await world.jobs.create(ADMIN, executor_id, {**job, "parameters": {"params": "a=1"}})
    raw = {**job, "blocking": "serial", "when_cut_off": "stop"}
    with pytest.raises(InvalidInput, match="when_cut_off"):
        await world.jobs.update(ADMIN, job_id, raw, revision=1)

    detail = await world.jobs.get(ADMIN, job_id)
    assert detail.is_offered
    assert detail.item.job.config.blocking.when_cut_off is WhenCutOff.CONTINUE
    with pytest.raises(InvalidInput, match="param"):
        await world.jobs.run_now(ADMIN, job_id, parameters='{"param": 5}')
    await world.jobs.run_now(ADMIN, job_id, parameters='{"param": "b=2"}')
    executor = await world.executors.get(ADMIN, executor_id)
    assert executor.handlers == []
    (view,) = executor.nodes
    assert (view.address, view.node.named_handlers) == (ONE, frozenset())
    assert executor.schema_of("anything") is not None
