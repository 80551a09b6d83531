"""Jobs declared in code: what processes say, what becomes of it, and what people decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.code_kit import NIGHTLY, Code
from tests.admin.world import ADMIN, World
from tickwheel_admin.services.declared_jobs import DeclaredItem, DeclaredJobs
from tickwheel_admin.store import tables
from tickwheel_admin.store.ids import Ids


@pytest.fixture
def world(sqlite_url: str) -> Iterator[World]:
    world = World(sqlite_url)
    yield world
    world.close()


@pytest.fixture
def code(world: World) -> Code:
    return Code(world)


@pytest.fixture
def declared(world: World) -> DeclaredJobs:
    return DeclaredJobs(world.database, Ids(world.database), world.events)


@pytest.fixture
async def executor_id(world: World) -> int:
    return await world.executor()


async def one(declared: DeclaredJobs, executor_id: int, name: str = "nightly") -> DeclaredItem:
    (item,) = [each for each in await declared.list(ADMIN, executor_id) if each.name == name]
    return item


async def test_a_job_is_created_as_its_code_declares_it(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    told = await code.start(executor_id, NIGHTLY)
    assert told == ["info: jobs declared in code: created 'nightly'"]
    item = await one(declared, executor_id)
    assert (item.state, item.reason, item.managed, item.declared_now) == (
        "applied",
        None,
        True,
        True,
    )
    assert item.job_id is not None
    detail = await world.jobs.get(ADMIN, item.job_id)
    assert detail.managed
    assert detail.item.job.config.handler == "send-invoices"
    assert len(world.triggers_of_job(item.job_id)) == 1
    assert await code.start(executor_id, NIGHTLY) == []
