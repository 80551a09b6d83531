"""Scripts of jobs: every way by which a job could get one, and who may go it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.declared_code import Code
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput, NotAllowed
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.runs.script import sha256_of
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.services.jobs.bulk import JobAction, JobBulk, JobChange
from tickwheel_admin.services.jobs.creation import JobCreation, NewJob
from tickwheel_admin.services.jobs.declared.service import DeclaredJobs
from tickwheel_admin.services.jobs.history import JobHistory
from tickwheel_admin.services.jobs.imports import JobImport
from tickwheel_admin.services.jobs.yaml import to_yaml
from tickwheel_admin.services.runs.edits import RetryRevision
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

AUTHOR = replace(ADMIN, scripts=frozenset({ALL_EXECUTORS}))
FIRST, SECOND = "echo first\n", "echo second\n"


def job(source: str = FIRST, **script: Any) -> dict[str, Any]:
    return {"name": "report", "script": {"language": "shell", "source": source} | script}


async def script_job(world: World, executor_id: int) -> int:
    """A job at its second script."""
    job_id = await world.jobs.create(AUTHOR, executor_id, job(FIRST, remark="how it began"))
    await world.jobs.update(AUTHOR, job_id, job(SECOND, remark="better"), revision=1)
    return job_id


def history_of(world: World) -> JobHistory:
    return JobHistory(world.database, Ids(world.database), world.events)


Way = Callable[[World, Actor, int, int], Awaitable[object]]


async def by_creating(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    return await world.jobs.create(actor, executor_id, job() | {"name": "new"})


async def by_copying(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    config = (await world.jobs.get(actor, job_id)).item.job.config
    return await world.jobs.create(actor, executor_id, job_to_raw(config) | {"name": "copy"})


async def by_editing(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    return await world.jobs.update(actor, job_id, job("echo third\n"), revision=2)


async def by_another_language(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    return await world.jobs.update(actor, job_id, job(SECOND, language="python"), revision=2)


async def by_importing(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    return await JobImport(world.jobs).add(actor, executor_id, to_yaml(job() | {"name": "new"}))


async def by_creating_many(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    creation = JobCreation(world.database, Ids(world.database), world.jobs, world.events)
    new = [NewJob(executor_id=executor_id, raw=job() | {"name": "new"})]
    (outcome,) = await creation.create_many(actor, new)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def by_rolling_back(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    return await history_of(world).roll_back(actor, job_id, 1, expected_revision=2)


async def by_retrying(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    run_id = world.run(executor_id=executor_id, job_id=job_id, job_revision=1, state="failed")
    return await world.runs.retry(actor, run_id, revision=RetryRevision.ORIGINAL)


async def by_accepting(world: World, actor: Actor, executor_id: int, job_id: int) -> object:
    declared = DeclaredJobs(world.database, Ids(world.database), world.events)
    await declared.set_policy(ADMIN, executor_id, "ask")
    await Code(world).start(
        executor_id, job() | {"name": "new"}, handlers=("script", "send-invoices")
    )
    return await declared.accept(actor, executor_id, "new")


WAYS = [
    by_creating,
    by_copying,
    by_editing,
    by_another_language,
    by_importing,
    by_creating_many,
    by_rolling_back,
    by_retrying,
    by_accepting,
]


@pytest.mark.parametrize("way", WAYS)
async def test_nobody_runs_a_script_without_the_right(
    way: Way, world: World, executor_id: int
) -> None:
    job_id = await script_job(world, executor_id)
    developer = actor_with(Role.DEVELOPER, executor_id)
    elsewhere = replace(developer, scripts=frozenset({executor_id + 1}))
    for actor in (developer, ADMIN, elsewhere):  # no role has the right by itself
        with pytest.raises(NotAllowed):
            await way(world, actor, executor_id, job_id)
    assert len(world.rows(sa.select(tables.job))) == 1
    assert (await world.jobs.get(ADMIN, job_id)).item.job.revision == 2
    await way(world, replace(developer, scripts=frozenset({executor_id})), executor_id, job_id)


async def test_an_executor_can_forbid_scripts_altogether(world: World, executor_id: int) -> None:
    job_id = await script_job(world, executor_id)
    with pytest.raises(NotAllowed):
        await world.executors.set_scripts(
            actor_with(Role.DEVELOPER, executor_id), executor_id, allowed=False
        )
    await world.executors.set_scripts(ADMIN, executor_id, allowed=False)
    await world.executors.set_scripts(ADMIN, executor_id, allowed=False)
    for way in WAYS:
        if way is not by_retrying:  # its run waits instead
            with pytest.raises(InvalidInput, match="forbids scripts"):
                await way(world, AUTHOR, executor_id, job_id)
    await world.executors.set_scripts(ADMIN, executor_id, allowed=True)
    actions = [action for action, _ in world.audit() if action.startswith("executor.scripts")]
    assert actions == ["executor.scripts_forbidden", "executor.scripts_allowed"]


async def test_code_declares_no_scripts_with_the_token_of_its_executor(
    world: World, executor_id: int
) -> None:
    declared = DeclaredJobs(world.database, Ids(world.database), world.events)
    await Code(world).start(executor_id, job(), handlers=["script"])
    (item,) = await declared.list(ADMIN, executor_id)
    assert (item.state, item.problems[0].code) == ("invalid", "not_allowed")
    job_id = await declared.accept(AUTHOR, executor_id, "report")  # a person may take it
    assert (await world.jobs.get(ADMIN, job_id)).item.job.config.script is not None


async def test_whoever_leaves_the_script_alone_may_edit_the_rest(
    world: World, executor_id: int
) -> None:
    job_id = await script_job(world, executor_id)
    developer = actor_with(Role.DEVELOPER, executor_id)
    config = (await world.jobs.get(developer, job_id)).item.job.config
    assert config.script is not None
    assert config.script.source == SECOND
    whole = job_to_raw(config)
    assert await world.jobs.update(developer, job_id, whole | {"owner": "a"}, revision=2) == 3
    by_hash = whole | {"script": {k: v for k, v in whole["script"].items() if k != "source"}}
    assert await world.jobs.update(developer, job_id, by_hash | {"owner": "b"}, revision=3) == 4
    bulk = JobBulk(world.database, Ids(world.database), world.jobs)
    done = await bulk.many(developer, [job_id], JobChange(action=JobAction.TAG, tag="nightly"))
    assert done.jobs == [job_id]
    # Taking a script away is no danger; it needs another handler.
    other = JOB | {"name": "report"}
    assert await world.jobs.update(developer, job_id, other, revision=5) == 6


async def test_a_hash_alone_is_only_that_of_the_jobs_own_script(
    world: World, executor_id: int
) -> None:
    job_id = await script_job(world, executor_id)
    by_hash = {"name": "report", "script": {"language": "shell", "sha256": sha256_of(FIRST)}}
    with pytest.raises(InvalidInput, match="source itself"):
        await world.jobs.update(AUTHOR, job_id, by_hash, revision=2)
    with pytest.raises(InvalidInput, match="source itself"):
        await world.jobs.create(AUTHOR, executor_id, by_hash | {"name": "new"})


async def test_history_and_audit_tell_each_script_by_its_hash(
    world: World, executor_id: int
) -> None:
    job_id = await script_job(world, executor_id)
    history = history_of(world)
    await history.roll_back(AUTHOR, job_id, 1, expected_revision=2)
    config = await history.config(ADMIN, job_id, 3)
    assert config.script is not None
    assert (config.script.source, config.script.remark) == (FIRST, "how it began")
    page = await history.page(ADMIN, job_id)
    before, after = page.items[1].changes[0].before, page.items[1].changes[0].after
    assert (before["sha256"], after["sha256"]) == (sha256_of(FIRST), sha256_of(SECOND))
    assert "source" not in after
    assert len(world.rows(sa.select(tables.script_source))) == 2  # each source once
    told = [row.detail for row in world.rows(sa.select(tables.audit).order_by(tables.audit.c.id))]
    of_job = [detail for detail in told if '"script"' in detail]
    assert [sha256_of(FIRST) in detail for detail in of_job] == [True, False, True]
    assert not any("echo" in detail for detail in told)


async def test_an_export_holds_the_sources(world: World, executor_id: int) -> None:
    job_id = await script_job(world, executor_id)
    bulk = JobBulk(world.database, Ids(world.database), world.jobs)
    text = "".join([part async for part in bulk.export(ADMIN, [job_id], None)])
    assert "echo second" in text
    there = await world.executor("other")
    (copy,) = await JobImport(world.jobs).add(AUTHOR, there, text)
    config = (await world.jobs.get(ADMIN, copy)).item.job.config
    assert config == (await world.jobs.get(ADMIN, job_id)).item.job.config
