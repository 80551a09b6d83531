"""Trying a script before it is saved: one run that nothing follows and nothing counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, FAR, JOB, World, actor_with
from tests.admin.services.jobs.test_scripts import AUTHOR, history_of, job
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.runs.script import sha256_of
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs.service import JobQuery, JobView
from tickwheel_admin.services.jobs.tries import ScriptTries
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.jobs.configs import JobConfigs, read_configs
from tickwheel_admin.store.overview import attention
from tickwheel_admin.store.overview.job_failures import count_failed_jobs
from tickwheel_admin.store.runs.retention import delete_runs
from tickwheel_admin.store.runs.stats import count_hour, first_hour

TYPED: dict[str, Any] = {"language": "shell", "source": "echo tried\n"}
EAGER = {
    "retries": 5,
    "blocking": "serial",
    "start_within_seconds": 60,
    "parameters": {"arguments": ["saved"]},
    "triggers": [{"kind": "cron", "expression": "* * * * *"}],
}


@pytest.fixture
def tries(world: World) -> ScriptTries:
    return ScriptTries(world.database, Ids(world.database), world.events)


async def test_a_try_runs_what_was_typed_and_nothing_follows_it(
    world: World, tries: ScriptTries, executor_id: int
) -> None:
    job_id = await world.jobs.create(AUTHOR, executor_id, job() | EAGER)
    node_id = world.node(executor_id, handlers=["script"])
    run_id = await tries.start(AUTHOR, job_id, TYPED, node_id=node_id, request_key="k")
    assert await tries.start(AUTHOR, job_id, TYPED, node_id=node_id, request_key="k") == run_id
    second = await tries.start(AUTHOR, job_id, TYPED, node_id=node_id, parameters='{"a": 1}')
    first, other = world.runs_of_job(job_id)
    assert (first.id, first.origin, first.job_revision) == (run_id, "try", -1)
    assert other.id == second
    assert other.job_revision < -1
    assert first.pinned_node_id == node_id
    assert first.blocking_key is None
    configs = world.database.read_sync(read_configs, [(job_id, -1), (job_id, other.job_revision)])
    config = configs[job_id, -1]
    assert config.script is not None
    assert config.script.sha256 == sha256_of("echo tried\n")
    assert (config.retry.retries, config.children, config.triggers) == (0, (), ())
    assert not config.keeps_state
    assert config.parameters == '{"arguments":["saved"]}'
    assert configs[job_id, other.job_revision].parameters == '{"a":1}'
    # The job itself has not changed, and its history knows nothing of it.
    assert (await world.jobs.get(ADMIN, job_id)).item.job.revision == 1
    assert [each.revision for each in (await history_of(world).page(ADMIN, job_id)).items] == [1]
    assert ("run.script_tried", run_id) in world.audit()


async def test_a_try_counts_for_nothing_and_is_not_repeated(
    world: World, tries: ScriptTries, executor_id: int
) -> None:
    job_id = await world.jobs.create(AUTHOR, executor_id, job())
    node_id = world.node(executor_id, handlers=["script"])
    run_id = await tries.start(AUTHOR, job_id, TYPED, node_id=node_id)
    failed = {"state": RunState.FAILED.value, "attempt": 1, "ended_at": world.now}
    world.change(sa.update(tables.run).where(tables.run.c.id == run_id).values(failed))
    item = (await world.jobs.get(ADMIN, job_id)).item
    assert (item.recent, item.last) == ([], None)
    assert (await world.jobs.page(ADMIN, JobQuery(view=JobView.FAILING))).items == []
    assert world.database.read_sync(lambda c: count_failed_jobs(c, from_at=0, to_at=FAR)) == []
    assert figures(world) == []
    # Beside another run of its job, which counts; and when the try succeeds, too.
    await world.jobs.run_now(AUTHOR, job_id)
    ended = failed | {"started_at": world.now, "state": RunState.SUCCEEDED.value}
    world.change(sa.update(tables.run).values(ended))
    assert figures(world) == [("succeeded", 1), ("attention", 1), ("delays", 1)]
    world.change(sa.update(tables.run).values(state=RunState.RUNNING.value, ended_at=None))
    (running,) = world.database.read_sync(
        lambda c: attention.long_running(c, started_before=FAR, scope=None)
    )
    assert running.id != run_id
    world.change(sa.update(tables.run).values(failed))
    with pytest.raises(Conflict, match="not saved"):
        await world.runs.retry(AUTHOR, run_id)
    assert (await world.runs.get(ADMIN, run_id)).item.run.origin is Origin.TRY
    world.database.run_sync(delete_runs, [run_id])
    revisions = world.rows(sa.select(tables.job_revision.c.revision))
    assert [row.revision for row in revisions] == [1]


def figures(world: World) -> list[tuple[str, int]]:
    """What is counted of all runs there are, without zeros."""
    hour_at = world.database.read_sync(first_hour)
    (hour,) = world.database.read_sync(lambda c: count_hour(c, hour_at)) or [None]
    (good, _) = world.database.read_sync(lambda c: attention.newest_successes(c, since=0))
    counted = {
        "failed": hour.failed if hour else 0,
        "succeeded": hour.succeeded if hour else 0,
        "attention": sum(good.values()),
        "delays": hour.delays.total if hour else 0,
    }
    return [each for each in counted.items() if each[1]]


async def test_a_purged_try_is_not_taken_for_the_next_one(
    world: World, tries: ScriptTries, executor_id: int
) -> None:
    job_id = await world.jobs.create(AUTHOR, executor_id, job())
    node_id = world.node(executor_id, handlers=["script"])
    configs = JobConfigs()  # as the dispatcher of an admin keeps them
    seen = []
    for source in ("echo older\n", "echo newer\n"):
        typed = TYPED | {"source": source}
        run_id = await tries.start(AUTHOR, job_id, typed, node_id=node_id)
        (run,) = world.runs_of_job(job_id)
        key = (job_id, run.job_revision)
        config = world.database.read_sync(configs.get_many, [key])[key]
        assert config.script is not None
        seen.append(config.script.sha256)
        world.database.run_sync(delete_runs, [run_id])
    assert seen == [sha256_of("echo older\n"), sha256_of("echo newer\n")]


async def test_who_may_not_edit_scripts_may_not_try_them(
    world: World, tries: ScriptTries, executor_id: int
) -> None:
    job_id = await world.jobs.create(AUTHOR, executor_id, job())
    plain = await world.jobs.create(AUTHOR, executor_id, JOB)
    node_id = world.node(executor_id, handlers=["script"])
    for actor in (actor_with(Role.DEVELOPER, executor_id), ADMIN):
        with pytest.raises(NotAllowed):
            await tries.start(actor, job_id, TYPED, node_id=node_id)
        with pytest.raises(NotAllowed):
            await tries.start(actor, job_id, {"language": "shell", "sha256": "0" * 64}, node_id=1)
    operator = replace(actor_with(Role.OPERATOR, executor_id), scripts=frozenset({executor_id}))
    with pytest.raises(NotAllowed):
        await tries.start(operator, job_id, TYPED, node_id=node_id)
    with pytest.raises(InvalidInput, match="source itself"):
        await tries.start(AUTHOR, job_id, {"language": "shell", "sha256": "0" * 64}, node_id=1)
    with pytest.raises(InvalidInput, match="no such live node"):
        await tries.start(AUTHOR, job_id, TYPED, node_id=5)
    with pytest.raises(Conflict, match="runs no script"):
        await tries.start(AUTHOR, plain, TYPED, node_id=node_id)
    await world.executors.set_scripts(ADMIN, executor_id, allowed=False)
    with pytest.raises(InvalidInput, match="forbids scripts"):
        await tries.start(AUTHOR, job_id, TYPED, node_id=node_id)
    assert world.runs_of_job(job_id) == []
