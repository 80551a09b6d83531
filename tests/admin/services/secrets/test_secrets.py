"""Secrets of executors: who may set them, what jobs may name, and what is told of them."""

from __future__ import annotations

import asyncio
import json

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound, UserError
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.secrets.cipher import Cipher
from tickwheel_admin.services.secrets.service import Secrets
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

MARKER = "canary-7c1f9e"


def job(name: str = "invoices", **parameters: object) -> dict[str, object]:
    return JOB | {"name": name, "parameters": parameters}


async def change(world: World, job_id: int, **parameters: object) -> None:
    (row,) = world.rows(sa.select(tables.job.c.revision).where(tables.job.c.id == job_id))
    await world.jobs.update(ADMIN, job_id, job(**parameters), revision=row.revision)


def details(world: World, action: str) -> list[dict[str, object]]:
    rows = world.rows(sa.select(tables.audit).where(tables.audit.c.action == action))
    return [json.loads(row.detail) for row in rows]


@pytest.mark.every_database
async def test_a_secret_is_set_replaced_and_deleted_and_its_value_is_told_nobody(
    world: World,
) -> None:
    executor_id = await world.executor()

    assert await world.secrets.put(ADMIN, executor_id, "api_key", MARKER)
    assert not await world.secrets.put(ADMIN, executor_id, "api_key", MARKER + "2")
    assert await world.secrets.put(ADMIN, executor_id, "API_KEY", MARKER)  # case counts
    job_id = await world.jobs.create(ADMIN, executor_id, job(key="${secret.api_key}"))

    items = {each.name: each for each in await world.secrets.list(ADMIN, executor_id)}
    assert (items["api_key"].version, items["API_KEY"].version) == (2, 1)
    assert items["api_key"].jobs == ((job_id, "invoices"),)
    assert (items["api_key"].updated_by, items["api_key"].readable) == ("ada", True)
    with pytest.raises(Conflict) as refusal:
        await world.secrets.delete(ADMIN, executor_id, "api_key")
    assert (refusal.value.code, "“invoices”" in str(refusal.value)) == ("secret.in_use", True)
    await world.jobs.delete(ADMIN, job_id)
    await world.secrets.delete(ADMIN, executor_id, "api_key")
    with pytest.raises(NotFound):
        await world.secrets.delete(ADMIN, executor_id, "api_key")

    assert [(each.name, each.exists) for each in await world.secrets.list(ADMIN, executor_id)] == [
        ("API_KEY", True)
    ]
    for action in ("added", "replaced", "deleted"):
        assert {"name": "billing", "secret": "api_key"} in details(
            world, f"executor.secret_{action}"
        )
    stored = [world.rows(sa.select(table)) for table in tables.metadata.sorted_tables]
    assert MARKER not in repr(stored) + repr(items)

    await world.executors.delete(ADMIN, executor_id)
    assert world.rows(sa.select(tables.secret)) == []


@pytest.mark.every_database
async def test_jobs_name_secrets_that_are_there_and_the_audit_tells_since_when(
    world: World,
) -> None:
    executor_id = await world.executor()
    for name in ("ONE", "TWO"):
        await world.secrets.put(ADMIN, executor_id, name, MARKER)

    job_id = await world.jobs.create(ADMIN, executor_id, job(a="${secret.ONE}"))
    await change(world, job_id, a="${secret.ONE}", b=["${secret.TWO}"])
    await change(world, job_id, b=["${secret.TWO}"])
    with pytest.raises(InvalidInput) as refusal:
        await change(world, job_id, a="${secret.ON}", b="${secret.x-y}")
    problems = {each.field: each for each in refusal.value.problems}
    assert "did you mean “ONE”" in problems["parameters.a"].message
    assert problems["parameters.b"].code == "secret.bad_reference"

    assert [each["secrets"] for each in details(world, "job.created")] == [["ONE"]]
    assert [each.get("secrets") for each in details(world, "job.updated")] == [["TWO"], None]
    uses = [(each.name, each.jobs) for each in await world.secrets.list(ADMIN, executor_id)]
    assert uses == [("ONE", ()), ("TWO", ((job_id, "invoices"),))]


async def test_a_secret_that_is_gone_stops_no_other_change(world: World) -> None:
    executor_id = await world.executor()
    await world.secrets.put(ADMIN, executor_id, "ONE", MARKER)
    job_id = await world.jobs.create(ADMIN, executor_id, job(a="${secret.ONE}"))
    world.change(sa.delete(tables.secret))

    await change(world, job_id, a="${secret.ONE}", b=1)

    (item,) = await world.secrets.list(ADMIN, executor_id)
    assert (item.exists, item.jobs) == (False, ((job_id, "invoices"),))


async def test_developers_use_secrets_and_administrators_set_them(world: World) -> None:
    mine, other = await world.executor(), await world.executor("shipping")
    expected = {
        Role.VIEWER: (NotAllowed, NotAllowed),
        Role.OPERATOR: (NotAllowed, NotAllowed),
        Role.DEVELOPER: (None, NotAllowed),
        Role.ADMIN: (None, None),
    }
    for role, (lists, sets) in expected.items():
        actor = actor_with(role, mine)
        for refused, call in (
            (lists, world.secrets.list(actor, mine)),
            (sets, world.secrets.put(actor, mine, "ONE", MARKER)),
            (sets, world.secrets.put(actor, mine, "TWO", MARKER)),
            (sets, world.secrets.delete(actor, mine, "TWO")),
            (NotFound, world.secrets.list(actor, other)),
            (NotFound, world.secrets.put(actor, other, "ONE", MARKER)),
        ):
            answers = await asyncio.gather(call, return_exceptions=True)
            assert [type(each) for each in answers if isinstance(each, UserError)] == (
                [] if refused is None else [refused]
            ), (role, call)


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("1KEY", MARKER, {"name": "secret.name_invalid"}),
        ("a" * 65, MARKER, {"name": "secret.name_invalid"}),
        ("ключ", "abc", {"name": "secret.name_invalid", "value": "secret.too_short"}),
        ("KEY", "  abc   ", {"value": "secret.too_short"}),
        ("KEY", MARKER + "\0", {"value": "control_characters"}),
        ("KEY", MARKER + "\udcff", {"value": "control_characters"}),
        ("KEY", MARKER + "é" * 2_048, {"value": "too_long"}),
    ],
)
async def test_what_cannot_be_kept_or_hidden_is_refused_without_repeating_it(
    world: World, name: str, value: str, wrong: dict[str, str]
) -> None:
    executor_id = await world.executor()

    with pytest.raises(InvalidInput) as refusal:
        await world.secrets.put(ADMIN, executor_id, name, value)

    assert {each.field: each.code for each in refusal.value.problems} == wrong
    assert "canary" not in str(refusal.value) + repr(refusal.value.problems)


async def test_an_admin_without_a_key_sets_nothing_and_says_what_to_do(world: World) -> None:
    executor_id = await world.executor()
    keyless = Secrets(world.database, Ids(world.database), world.events, Cipher())

    with pytest.raises(Conflict) as refusal:
        await keyless.put(ADMIN, executor_id, "KEY", MARKER)

    assert refusal.value.code == "secret_key.missing"
    await world.secrets.put(ADMIN, executor_id, "KEY", MARKER)
    (item,) = await keyless.list(ADMIN, executor_id)
    assert not item.readable
