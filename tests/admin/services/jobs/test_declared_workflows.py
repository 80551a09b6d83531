"""Workflows that code declares become jobs as other declared jobs do."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.declared_code import NIGHTLY, Code
from tests.admin.kit.services import ADMIN, JOB, World
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.services.jobs.declared.service import DeclaredItem, DeclaredJobs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

SEND = {"key": "send", "handler": "send-invoices"}


def month_end(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"name": "month-end", "workflow": {"steps": [*steps]}} | fields


@pytest.fixture
def code(world: World) -> Code:
    return Code(world)


@pytest.fixture
def declared(world: World) -> DeclaredJobs:
    return DeclaredJobs(world.database, Ids(world.database), world.events)


async def one(declared: DeclaredJobs, executor_id: int) -> DeclaredItem:
    items = await declared.list(ADMIN, executor_id)
    (item,) = [each for each in items if each.name == "month-end"]
    return item


def hidden_jobs(world: World) -> list[str]:
    job = tables.job
    rows = world.rows(sa.select(job.c.name).where(job.c.name.like("%/%"), job.c.deleted_at < 0))
    return sorted(row.name for row in rows)


async def test_a_workflow_is_made_with_its_hidden_jobs_and_the_jobs_it_names(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    nightly = {"key": "nightly", "job": "nightly", "needs": ["send"]}
    told = await code.start(executor_id, NIGHTLY, month_end(SEND, nightly))
    assert told == ["info: jobs declared in code: created 'nightly', 'month-end'"]
    item = await one(declared, executor_id)
    assert (item.state, item.handler, item.managed) == ("applied", "workflow", True)
    assert hidden_jobs(world) == ["month-end/send"]
    assert item.job_id is not None
    with pytest.raises(Conflict, match="declared in code"):
        await world.jobs.update(ADMIN, item.job_id, JOB, revision=1)
    assert await code.start(executor_id, NIGHTLY, month_end(SEND, nightly), name="node-2") == []
    other = {"key": "again", "handler": "send-invoices", "needs": ["nightly"]}
    await code.start(executor_id, NIGHTLY, month_end(SEND, nightly, other), name="node-3")
    assert hidden_jobs(world) == ["month-end/again", "month-end/send"]


async def test_people_decide_on_it_as_on_any_declared_job(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await declared.set_policy(ADMIN, executor_id, "ask")
    await world.jobs.create(ADMIN, executor_id, JOB | {"name": "bill"})
    await code.start(executor_id, month_end(SEND, {"key": "bill", "job": "bill"}))
    item = await one(declared, executor_id)
    assert (item.state, hidden_jobs(world)) == ("waiting", [])
    assert [each.field for each in item.differences][-1] == "workflow"
    await declared.accept(ADMIN, executor_id, "month-end")
    assert ((await one(declared, executor_id)).state, hidden_jobs(world)) == (
        "applied",
        ["month-end/send"],
    )


@pytest.mark.parametrize(
    ("step", "field"),
    [
        ({"key": "bill", "job": "bill"}, "workflow.steps[1].job"),
        ({"key": "bill", "handler": "no-such"}, "workflow.steps[1].handler"),
        ({"key": "bill", "job": "nightly", "needs": ["bill"]}, "workflow.steps[1].needs[0]"),
    ],
)
async def test_one_of_which_no_job_can_be_made_says_where(
    code: Code, declared: DeclaredJobs, executor_id: int, step: dict[str, Any], field: str
) -> None:
    await code.start(executor_id, NIGHTLY, month_end(SEND, step))
    item = await one(declared, executor_id)
    assert (item.state, [each.field for each in item.problems]) == ("invalid", [field])


async def test_what_code_may_not_run_a_person_can_accept(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await world.jobs.create(ADMIN, await world.executor("others"), JOB | {"name": "bill"})
    said = month_end({"key": "bill", "job": {"executor": "others", "name": "bill"}})
    await code.start(executor_id, said)
    item = await one(declared, executor_id)
    assert (item.state, [each.code for each in item.problems]) == (
        "invalid",
        ["workflow.unknown_executor_name"],
    )
    await declared.accept(ADMIN, executor_id, "month-end")
    assert await code.start(executor_id, said, name="node-2") == []
    assert (await one(declared, executor_id)).state == "applied"
