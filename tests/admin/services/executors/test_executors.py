"""Executors: names, tokens, nodes, and who may do what."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.executors.tokens import executor_of_token

pytestmark = pytest.mark.every_database(nightly=True)


async def test_a_new_executor_gets_a_token_of_which_only_the_hash_is_kept(world: World) -> None:
    new = await world.executors.create(ADMIN, name="billing", description="Sends invoices.")
    (row,) = world.rows(sa.select(tables.executor))
    assert row.token_hash == hashlib.sha256(new.token.encode()).hexdigest()
    assert new.token not in str(row)
    assert len(new.token) > 40
    assert world.audit() == [("executor.created", new.id)]
    (detail,) = world.rows(sa.select(tables.audit.c.detail))
    assert new.token not in detail.detail
    assert [(e.id, e.name, e.description) for e in await world.executors.list(ADMIN)] == [
        (new.id, "billing", "Sends invoices.")
    ]


@pytest.mark.every_database
async def test_names_are_unique_until_deleted(world: World) -> None:
    first = await world.executor()
    with pytest.raises(Conflict) as caught:
        await world.executor()
    assert caught.value.code == "executor.name_taken"
    await world.executors.delete(ADMIN, first)
    assert await world.executor() != first


@pytest.mark.every_database
async def test_the_loser_of_a_race_for_a_name_gets_a_conflict(world: World) -> None:
    results = await asyncio.gather(*(world.executor() for _ in range(4)), return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    assert len(errors) == 3
    assert {getattr(error, "code", error) for error in errors} == {"executor.name_taken"}


@pytest.mark.parametrize("name", ["", "Billing", "-a", "a b", "a\nb", "é", "x" * 101, "a/b"])
async def test_bad_names_are_refused(world: World, name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await world.executors.create(ADMIN, name=name, description="")
    assert [p.field for p in caught.value.problems] == ["name"]
    assert world.audit() == []


async def test_an_old_token_opens_nothing_after_rotation_or_deletion(world: World) -> None:
    first = await world.executors.create(ADMIN, name="billing", description="")
    second = await world.executors.rotate_token(ADMIN, first.id)
    assert (second.id, second.name) == (first.id, "billing")
    assert _opens(world, second.token) == (first.id, "billing")
    assert _opens(world, first.token) is None
    await world.executors.delete(ADMIN, first.id)
    assert _opens(world, second.token) is None
    with pytest.raises(NotFound):
        await world.executors.rotate_token(ADMIN, first.id)


@pytest.mark.every_database
async def test_an_executor_with_jobs_stays(world: World) -> None:
    executor_id = await world.executor()
    job_id = await world.jobs.create(ADMIN, executor_id, JOB)
    with pytest.raises(Conflict) as caught:
        await world.executors.delete(ADMIN, executor_id)
    assert caught.value.code == "executor.has_jobs"
    await world.jobs.delete(ADMIN, job_id)
    await world.executors.delete(ADMIN, executor_id)
    assert await world.executors.list(ADMIN) == []


@pytest.mark.every_database
async def test_no_job_can_be_added_to_a_deleted_executor(world: World) -> None:
    executor_id = await world.executor()
    await world.executors.delete(ADMIN, executor_id)
    with pytest.raises(NotFound):
        await world.jobs.create(ADMIN, executor_id, JOB)


async def test_capacity_counts_live_nodes_only(world: World) -> None:
    executor_id = await world.executor()
    other_id = await world.executor("other")
    busy = world.node(executor_id, slots=4, in_use=3, handlers=["b", "a"])
    world.node(executor_id, slots=2, handlers=["a", "c"], name="a-first")
    gone = world.node(executor_id, slots=9, handlers=["z"], state="gone", ended_at=world.now)
    world.node(executor_id, state="dead", ended_at=world.now - 100_000_000)
    run_id = world.run(
        executor_id=executor_id, node_id=busy, state="running", deadline_at=FAR, progress=0.5
    )
    await world.jobs.create(ADMIN, executor_id, JOB | {"handler": "a"})
    item, other = await world.executors.list(ADMIN)
    assert (item.live_nodes, item.slots, item.in_use, item.jobs) == (2, 6, 3, 1)
    assert (other.id, other.live_nodes, other.jobs) == (other_id, 0, 0)
    detail = await world.executors.get(ADMIN, executor_id)
    assert detail.item == item
    assert detail.handlers == ["a", "b", "c"]
    assert [view.node.name for view in detail.nodes] == ["a-first", f"host-{busy}", f"host-{gone}"]
    assert [(m.id, m.progress) for m in detail.nodes[1].running] == [(run_id, 0.5)]


async def test_what_one_may_not_see_looks_like_what_does_not_exist(world: World) -> None:
    mine, other = await world.executor("mine"), await world.executor("other")
    viewer = actor_with(Role.VIEWER, mine)
    assert [e.name for e in await world.executors.list(viewer)] == ["mine"]
    texts = set()
    for executor_id in (other, 999):
        with pytest.raises(NotFound) as caught:
            await world.executors.get(viewer, executor_id)
        texts.add(str(caught.value))
    with pytest.raises(NotFound) as caught:
        await world.executors.get(ADMIN, 999)
    assert texts == {str(caught.value)}


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.DEVELOPER])
async def test_only_administrators_change_executors(world: World, role: Role) -> None:
    executor_id = await world.executor()
    actor = actor_with(role, executor_id)
    with pytest.raises((NotAllowed, NotFound)):
        await world.executors.create(actor, name="mine", description="")
    with pytest.raises(NotAllowed):
        await world.executors.rotate_token(actor, executor_id)
    with pytest.raises(NotAllowed):
        await world.executors.delete(actor, executor_id)


def _opens(world: World, token: str) -> tuple[int, str] | None:
    token_hash = hashlib.sha256(token.encode()).hexdigest()
    return world.database.read_sync(executor_of_token, token_hash)
