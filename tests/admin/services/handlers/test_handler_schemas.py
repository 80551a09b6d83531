"""What handlers take, as processes say it: kept, replaced, taken back, and held against people."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.declared_code import MONTH_SCHEMA, Code
from tests.admin.kit.services import ADMIN, JOB, World
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.services.handlers import schemas as handler_schemas
from tickwheel_admin.store.database import tables

SCHEMAS = {"send-invoices": MONTH_SCHEMA}
DAILY = {"kind": "cron", "expression": "0 3 * * *"}


@pytest.fixture
def code(world: World) -> Code:
    return Code(world)


@pytest.fixture
async def executor_id(world: World, code: Code) -> int:
    """An executor with a node whose handler says what it takes."""
    executor_id = await world.executor()
    assert await code.start(executor_id, schemas=SCHEMAS) == []
    return executor_id


def job(parameters: dict[str, Any] | None = None, *triggers: dict[str, Any]) -> dict[str, Any]:
    return JOB | {"parameters": parameters or {}, "triggers": list(triggers)}


async def schemas(world: World, executor_id: int) -> list[str]:
    return sorted((await world.executors.get(ADMIN, executor_id)).schemas)


async def test_a_process_says_what_its_handlers_take(world: World, executor_id: int) -> None:
    assert await schemas(world, executor_id) == ["send-invoices"]
    job_id = await world.jobs.create(ADMIN, executor_id, job())
    assert '"month"' in ((await world.jobs.get(ADMIN, job_id)).schema or "")
    other = await world.jobs.create(ADMIN, await world.executor("other"), job())
    assert (await world.jobs.get(ADMIN, other)).schema is None


async def test_the_newest_process_has_the_last_word_on_the_handlers_that_it_offers(
    world: World, code: Code, executor_id: int
) -> None:
    two = {"send-invoices": {"type": "object"}, "export": MONTH_SCHEMA}
    await code.start(executor_id, handlers=two, schemas=two)
    assert await schemas(world, executor_id) == ["export", "send-invoices"]
    job_id = await world.jobs.create(ADMIN, executor_id, job({"x": 1}, DAILY))
    # Another program of the same executor says nothing of "export", and takes anything itself.
    await code.start(executor_id)
    assert await schemas(world, executor_id) == ["export"]
    assert (await world.jobs.get(ADMIN, job_id)).schema is None


async def test_schemas_that_nobody_offers_any_more_go_when_there_are_too_many(
    world: World, code: Code, executor_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_schemas, "MAX_KNOWN", 3)
    for number in range(5):
        handlers = {f"old-{number}": MONTH_SCHEMA}
        node = await code.admit(executor_id, handlers=handlers)
        await code.look(node, handlers=handlers, schemas=handlers)
        await code.end(world, node)
    # "send-invoices" is the oldest, and a live node offers it.
    assert await schemas(world, executor_id) == ["old-3", "old-4", "send-invoices"]


async def test_an_older_process_that_is_looked_at_late_changes_nothing(
    world: World, code: Code, executor_id: int
) -> None:
    old = await code.admit(executor_id)
    world.change(
        sa.update(tables.node).where(tables.node.c.id == old.node_id).values(connected_at=1)
    )
    old = await code.admit(executor_id, key=_key(world, old.node_id))
    assert not old.manifest_is_read
    await code.look(old, schemas={"send-invoices": {"type": "object"}})
    (row,) = world.rows(sa.select(tables.handler_schema))
    assert "month" in row.schema


def _key(world: World, node_id: int) -> str:
    (row,) = world.rows(sa.select(tables.node.c.node_key).where(tables.node.c.id == node_id))
    return str(row.node_key)


@pytest.mark.parametrize(
    ("raw", "fields"),
    [
        (job({"month": 1}), ["parameters.month"]),
        (job({"mont": "2026-01"}), ["parameters.mont"]),
        (job({}, DAILY), ["parameters.month"]),
        (job({"month": "2026-01"}, DAILY, DAILY | {"parameters": {"month": "x"}}),
         ["triggers[1].parameters.month"]),
        (job({"copies": 0}, DAILY | {"parameters": {"month": "2026-01"}}), ["parameters.copies"]),
        (job({"copies": 0}, DAILY | {"parameters": {"copies": "1"}}),
         ["parameters.month", "triggers[0].parameters.copies"]),
    ],
)  # fmt: skip
async def test_a_job_whose_fires_would_be_refused_is_refused(
    world: World, executor_id: int, raw: dict[str, Any], fields: list[str]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        await world.jobs.create(ADMIN, executor_id, raw)
    assert sorted(each.field for each in caught.value.problems) == fields
    assert world.rows(sa.select(tables.job)) == []


async def test_a_job_without_triggers_leaves_the_rest_to_those_who_run_it(
    world: World, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, job({"copies": 2}))
    for parameters, field in ((None, "month"), ('{"month":5}', "month"), ('{"x":5}', "x")):
        with pytest.raises(InvalidInput) as caught:
            await world.jobs.run_now(ADMIN, job_id, parameters=parameters)
        assert f"parameters.{field}" in [each.field for each in caught.value.problems]
    assert world.runs_of_job(job_id) == []
    run_id = await world.jobs.run_now(ADMIN, job_id, parameters='{"month":"2026-01"}')
    assert [row.id for row in world.runs_of_job(job_id)] == [run_id]


async def test_an_edit_is_held_against_the_schema_when_it_touches_what_runs_are_given(
    world: World, code: Code, executor_id: int
) -> None:
    await code.start(executor_id)  # takes anything
    job_id = await world.jobs.create(ADMIN, executor_id, job({"x": 1}, DAILY))
    await code.start(executor_id, schemas=SCHEMAS)
    renamed = job({"x": 1}, DAILY) | {"owner": "ada"}
    assert await world.jobs.update(ADMIN, job_id, renamed, revision=1) == 2
    with pytest.raises(InvalidInput):
        await world.jobs.update(ADMIN, job_id, job({"x": 2}, DAILY), revision=2)


async def test_a_retry_is_refused_only_for_what_is_changed_of_it(
    world: World, code: Code, executor_id: int
) -> None:
    await code.start(executor_id)
    job_id = await world.jobs.create(ADMIN, executor_id, job({"x": 1}))
    run_id = world.run(executor_id=executor_id, job_id=job_id, state="failed", parameters=None)
    await code.start(executor_id, schemas=SCHEMAS)
    with pytest.raises(InvalidInput) as caught:
        await world.runs.retry(ADMIN, run_id, parameters='{"month":"2026-01"}')
    assert [each.field for each in caught.value.problems] == ["parameters.x"]
    await world.runs.retry(ADMIN, run_id)


async def test_what_cannot_be_used_is_left_out_and_said(world: World, code: Code) -> None:
    executor_id = await world.executor()
    told = await code.start(
        executor_id,
        handlers=["a", "b", "c"],
        schemas={"a": MONTH_SCHEMA, "b": [], "c": {"x": "y" * 16_384}, "d": {}},
    )
    assert told == [
        (
            "error: the schema of the handler 'b' is no JSON object, is nested too deeply, or"
            " holds a number beyond ±1.8e308"
        ),
        "error: the schema of the handler 'c' has more than 16 KiB and is not used",
        "error: there is a schema for 'd', but no such handler",
    ]
    assert await schemas(world, executor_id) == ["a"]
    large = {f"h{n}": {"x": "y" * 16_000} for n in range(40)}
    told = await code.start(executor_id, handlers=large, schemas=large)
    assert told == [
        "error: the schemas of its handlers have more than 512 KiB together, so none is used"
    ]


async def test_schemas_go_with_their_executor(world: World, executor_id: int) -> None:
    await world.executors.delete(ADMIN, executor_id)
    assert world.rows(sa.select(tables.handler_schema)) == []
