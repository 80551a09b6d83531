"""Many jobs at once: what is done, what is left alone and why, step by step."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.jobs import bulk as job_bulk
from tickwheel_admin.services.jobs.bulk import JobAction, JobBulk, JobChange
from tickwheel_admin.services.jobs.imports import JobImport
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.services.jobs.yaml_reader import read_yaml
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

PAUSE = JobChange(action=JobAction.PAUSE)


@pytest.fixture
def bulk(world: World) -> JobBulk:
    return JobBulk(world.database, Ids(world.database), world.jobs)


async def add(world: World, executor_id: int, *names: str, **more: object) -> list[int]:
    jobs = world.jobs
    return [await jobs.create(ADMIN, executor_id, JOB | {"name": n} | more) for n in names]


def manage(world: World, executor_id: int, job_id: int) -> None:
    """Let code declare the job."""
    world.change(
        sa.insert(tables.declared_job).values(
            executor_id=executor_id,
            name="declared",
            raw="{}",
            job_id=job_id,
            state="applied",
            problems="[]",
            declared_by="node",
            node_id=1,
            declared_at=1,
        )
    )


def paused(world: World) -> set[int]:
    return {row.id for row in world.rows(sa.select(tables.job.c.id).where(tables.job.c.paused))}


async def exported(bulk: JobBulk, job_ids: list[int]) -> str:
    return "".join([part async for part in bulk.export(ADMIN, job_ids, None)])


async def test_an_import_takes_what_an_export_writes(world: World, bulk: JobBulk) -> None:
    here, there = [await world.executor(name) for name in ("here", "there")]
    jobs = await add(world, here, *(f"job-{n}" for n in range(60)), retries=2)
    text = await exported(bulk, jobs)
    added = await JobImport(world.jobs).add(ADMIN, there, text)
    assert len(set(added)) == 60
    assert await exported(bulk, added) == text


async def test_an_import_with_anything_wrong_adds_nothing_and_tells_all(
    world: World, bulk: JobBulk
) -> None:
    executor_id = await world.executor()
    (job_id,) = await add(world, executor_id, "first")
    text = "---\nname: a\nhandler: h\n---\nname: a\nhandler: h\n---\nname: first\nretries: no\n"
    with pytest.raises(InvalidInput) as refused:
        await JobImport(world.jobs).add(ADMIN, executor_id, text)
    told = [(p.params["line"], p.field, p.code) for p in refused.value.problems]
    assert sorted(told) == [
        (5, "name", "job.name_taken"),
        (8, "handler", "required"),
        (8, "name", "job.name_taken"),
        (9, "retries", "wrong_type"),
    ]
    assert [row.id for row in world.rows(sa.select(tables.job.c.id))] == [job_id]


FLOWS = """\
name: outer
workflow:
  steps:
    - {key: a, workflow: inner}
    - {key: b, job: {executor: billing, name: plain}}
---
name: inner
workflow:
  steps:
    - {key: a, job: plain}
---
name: plain
handler: h
children: [{job: last}]
---
name: last
handler: h
"""


async def test_jobs_of_an_import_name_each_other_in_any_order(world: World) -> None:
    executor_id = await world.executor("billing")
    added = await JobImport(world.jobs).add(ADMIN, executor_id, FLOWS)
    outer, inner, plain, last = [await world.jobs.get(ADMIN, each) for each in added]
    names = [each.item.job.config.name for each in (outer, inner, plain, last)]
    assert names == ["outer", "inner", "plain", "last"]
    flows = [each.item.job.config.workflow for each in (outer, inner)]
    assert [flow and flow.job_ids for flow in flows] == [(added[1], added[2]), (added[2],)]
    assert [link.job_id for link in plain.item.job.config.children] == [added[3]]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("job: last}]", "job: outer}]", (5, "workflow.steps[1].job", "import.circle")),
        ("job: plain}\n---", "job: none}\n---", (10, None, "workflow.unknown_job_name")),
        ("workflow: inner", "workflow: last", (4, None, "workflow.no_workflow")),
    ],
)
async def test_links_of_an_import_that_lead_nowhere_add_nothing(
    world: World, before: str, after: str, told: tuple[int, str | None, str]
) -> None:
    executor_id = await world.executor("billing")
    assert before in FLOWS
    with pytest.raises(InvalidInput) as refused:
        await JobImport(world.jobs).add(ADMIN, executor_id, FLOWS.replace(before, after))
    (problem,) = refused.value.problems
    assert (problem.params["line"], problem.code) == (told[0], told[2])
    assert told[1] in (None, problem.field)
    if problem.code == "import.circle":
        assert problem.params["path"] == "outer → plain → outer"
    assert world.rows(sa.select(tables.job.c.id)) == []


async def test_those_that_may_not_be_touched_are_left_alone_and_told(
    world: World, bulk: JobBulk
) -> None:
    mine, seen, hidden = [await world.executor(name) for name in ("mine", "seen", "hidden")]
    own, by_code = await add(world, mine, "own", "by-code")
    (watched,) = await add(world, seen, "watched")
    (secret,) = await add(world, hidden, "secret")
    manage(world, mine, by_code)
    ada = Actor(user_id=2, name="ada", grants={mine: Role.DEVELOPER, seen: Role.VIEWER})
    everything = [own, by_code, watched, secret, 999_999]
    told = await bulk.many(ada, everything, PAUSE)
    # Code says what a job is; whether it is paused is for people.
    assert (told.jobs, told.skipped) == ([own, by_code], {"not_allowed": 1, "not_found": 2})
    assert paused(world) == {own, by_code}
    told = await bulk.many(ada, everything, JobChange(action=JobAction.DELETE))
    assert told.jobs == [own]
    assert told.skipped == {"job.managed_by_code": 1, "not_allowed": 1, "not_found": 2}
    tag = JobChange(action=JobAction.TAG, tag="x")
    assert (await bulk.many(ada, [by_code], tag)).skipped == {"job.managed_by_code": 1}


async def test_all_that_match_are_changed_in_steps_also_when_they_match_no_longer(
    world: World, bulk: JobBulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_bulk, "STEP", 3)
    executor_id = await world.executor()
    wanted = await add(world, executor_id, *(f"job-{n}" for n in range(8)), tags=["night"])
    (other,) = await add(world, executor_id, "other")
    query = JobQuery(tags=("night",), view="active", sort="-changed")
    assert await bulk.count(ADMIN, query) == (8, False)
    done, cursor = [], None
    for _ in range(3):
        step = await bulk.matching(ADMIN, query, PAUSE, cursor=cursor)
        done += step.jobs
        cursor = step.next
    assert (done, cursor) == (wanted, None)
    assert paused(world) == set(wanted)
    assert other not in done


async def test_tags_come_and_go_as_revisions(world: World, bulk: JobBulk) -> None:
    executor_id = await world.executor()
    first, second = await add(world, executor_id, "a", "b", tags=["old"])
    await bulk.many(ADMIN, [first, second], JobChange(action=JobAction.TAG, tag=" new "))
    again = await bulk.many(ADMIN, [first], JobChange(action=JobAction.TAG, tag="new"))
    assert again.done == 1
    await bulk.many(ADMIN, [second], JobChange(action=JobAction.UNTAG, tag="old"))
    jobs = {i.job.id: i.job for i in (await world.jobs.page(ADMIN, JobQuery())).items}
    assert (jobs[first].config.tags, jobs[first].revision) == (("old", "new"), 2)
    assert (jobs[second].config.tags, jobs[second].revision) == (("new",), 3)
    actions = [row.action for row in world.rows(sa.select(tables.audit.c.action))]
    assert actions.count("job.updated") == 3
    full = await add(world, executor_id, "full", tags=[f"tag-{n}" for n in range(20)])
    assert (await bulk.many(ADMIN, full, JobChange(action=JobAction.TAG, tag="x"))).skipped == {
        "too_many": 1
    }


async def test_the_same_request_starts_no_job_twice(world: World, bulk: JobBulk) -> None:
    executor_id = await world.executor()
    jobs = await add(world, executor_id, "a", "b")
    start = JobChange(action=JobAction.RUN, request_key="once")
    for _ in range(2):
        assert (await bulk.many(ADMIN, jobs, start)).jobs == jobs
    runs = world.rows(sa.select(tables.run.c.job_id, tables.run.c.origin))
    assert sorted((run.job_id, run.origin) for run in runs) == [(j, "manual") for j in jobs]


@pytest.mark.parametrize(
    "change",
    [
        JobChange(action=JobAction.TAG, tag=""),
        JobChange(action=JobAction.TAG, tag="a,b"),
        JobChange(action=JobAction.RUN),
        JobChange(action=JobAction.RUN, request_key="x" * 101),
    ],
)
async def test_a_wrong_change_is_refused_once(
    world: World, bulk: JobBulk, change: JobChange
) -> None:
    (job_id,) = await add(world, await world.executor(), "a")
    with pytest.raises(InvalidInput):
        await bulk.many(ADMIN, [job_id], change)
    with pytest.raises(InvalidInput):
        await bulk.matching(ADMIN, JobQuery(), change)


async def test_one_to_a_thousand_jobs_are_named_at_once(bulk: JobBulk) -> None:
    for ids in ([], range(1, 1_002)):
        with pytest.raises(InvalidInput):
            await bulk.many(ADMIN, ids, PAUSE)


async def test_export_is_a_document_for_each_job_that_one_may_see(
    world: World, bulk: JobBulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_bulk, "STEP", 2)
    mine, hidden = await world.executor("mine"), await world.executor("hidden")
    jobs = await add(world, mine, "b", "a", "c", tags=["x"])
    (secret,) = await add(world, hidden, "secret", tags=["x"])
    viewer = actor_with(Role.VIEWER, mine)

    async def names(ids: list[int], query: JobQuery | None) -> list[str]:
        text = "".join([part async for part in bulk.export(viewer, ids, query)])
        return [read_yaml(each).value["name"] for each in text.split("---\n")[1:]]

    assert await names([*jobs, secret, 999_999], None) == ["b", "a", "c"]
    assert await names([], JobQuery(tags=("x",))) == ["a", "b", "c"]
