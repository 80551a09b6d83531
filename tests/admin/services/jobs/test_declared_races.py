"""Processes and people that decide on declared jobs at the same time, on each database."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.declared_code import NIGHTLY, Code
from tests.admin.kit.services import ADMIN, World
from tickwheel_admin.domain.errors import InvalidInput, NotFound, UserError
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

pytestmark = pytest.mark.every_database

ROUNDS = 4


def version(number: int, *, name: str = "nightly") -> dict[str, Any]:
    return NIGHTLY | {"name": name, "description": f"version {number}"}


def schema(number: int) -> dict[str, Any]:
    return {"send-invoices": {"type": "object", "description": f"version {number}"}}


async def test_of_processes_that_start_at_once_the_newest_has_the_last_word(world: World) -> None:
    """Two admins, each with half of the processes, and two versions of the program."""
    executor_id = await world.executor()
    admins = [Code(world, admin_id=number) for number in (1, 2)]
    for number in range(ROUNDS):
        versions = [2 * number, 2 * number, 2 * number + 1, 2 * number + 1]
        admitted = await asyncio.gather(
            *(
                admins[index % 2].admit(executor_id, name=f"node-{number}-{index}")
                for index in range(4)
            )
        )
        await asyncio.gather(
            *(
                admins[index % 2].look(
                    process, version(versions[index]), schemas=schema(versions[index])
                )
                for index, process in enumerate(admitted)
            )
        )
        newest = max(range(4), key=lambda index: admitted[index].process.place)
        wanted = f"version {versions[newest]}"
        [job] = world.rows(sa.select(tables.job))
        [row] = world.rows(sa.select(tables.declared_job))
        [revision] = world.rows(
            sa.select(tables.job_revision).where(tables.job_revision.c.revision == job.revision)
        )
        [kept] = world.rows(sa.select(tables.handler_schema))
        assert json.loads(revision.config)["description"] == wanted
        assert (json.loads(row.raw)["description"], row.job_id) == (wanted, job.id)
        assert json.loads(kept.schema)["description"] == wanted
    assert len(world.rows(sa.select(tables.trigger))) == 1
    created = [action for action, _ in world.audit() if action == "job.created"]
    assert created == ["job.created"]


async def test_people_and_processes_never_leave_a_declaration_of_a_job_that_is_gone(
    world: World,
) -> None:
    executor_id = await world.executor()
    code = Code(world)
    declared = DeclaredJobs(world.database, Ids(world.database), world.events)
    names = ("a", "b", "c")
    for number in range(ROUNDS):
        said = [version(number, name=name) for name in names]
        await code.start(executor_id, *said)
        managed = [each.job_id for each in await declared.list(ADMIN, executor_id) if each.job_id]
        again = [version(number + 100, name=name) for name in names]
        done = await asyncio.gather(
            code.start(executor_id, *again),
            *(world.jobs.delete(ADMIN, job_id) for job_id in managed),
            *(declared.accept(ADMIN, executor_id, name) for name in names),
            *(declared.release(ADMIN, executor_id, name) for name in names[:1]),
            *(declared.ignore(ADMIN, executor_id, name) for name in names[1:]),
            return_exceptions=True,
        )
        unexpected = [
            each
            for each in done
            if isinstance(each, BaseException) and not isinstance(each, UserError | NotFound)
        ]
        assert unexpected == []
        live = {
            row.id: row.name
            for row in world.rows(sa.select(tables.job).where(tables.job.c.deleted_at == 0))
        }
        rows = world.rows(sa.select(tables.declared_job))
        for row in rows:
            assert row.job_id is None or live.get(row.job_id) == row.name, row
            assert (row.state == "applied") == (row.job_id is not None), row
        assert len(set(live.values())) == len(live)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
async def test_what_is_no_name_is_not_looked_for(world: World, name: str) -> None:
    """PostgreSQL takes no NUL, and no database a lone half of a character."""
    executor_id = await world.executor()
    declared = DeclaredJobs(world.database, Ids(world.database), world.events)
    for decide in (declared.accept, declared.ignore, declared.release):
        with pytest.raises(NotFound):
            await decide(ADMIN, executor_id, name)
    code = Code(world)
    await code.start(executor_id, version(1))
    await code.start(executor_id, version(1, name="renamed"))
    with pytest.raises(InvalidInput):
        await declared.accept(ADMIN, executor_id, "renamed", rename_from=name)
