"""Documents as the state that is wanted: planned, applied in one transaction, or refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tests.admin.kit.work_counter import counted
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.services.gitops.objects import ObjectPlan
from tickwheel_admin.services.gitops.service import GitOps
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

DAILY = {"kind": "cron", "expression": "0 9 * * *", "timezone": "Europe/Berlin"}
BILLING = {"type": "executor", "name": "billing", "description": "invoices"}
TEAM = "team-billing"


def job(name: str = "invoices", **more: Any) -> dict[str, Any]:
    return {**JOB, "type": "job", "executor": "billing", "name": name, **more}


async def applied(
    world: World, documents: list[Any], actor: Actor = ADMIN, **more: Any
) -> ObjectPlan:
    """ObjectPlan and apply at once, as somebody does who is alone."""
    plan = await world.gitops.plan(actor, documents, **({"owner": TEAM} | more))
    assert not plan.problems, [str(each) for each in plan.problems]
    return await world.gitops.apply(
        actor, documents, fingerprint=plan.fingerprint, **({"owner": TEAM} | more)
    )


def other(world: World) -> GitOps:
    """The same of another admin."""
    return GitOps(
        world.database, Ids(world.database), world.events, world.cipher, languages=("en",)
    )


async def stored_jobs(world: World) -> list[Job]:
    page = await world.jobs.page(ADMIN, JobQuery())
    return [item.job for item in page.items]


def told(plan: ObjectPlan) -> list[tuple[str, str]]:
    return [(each.action.value, each.key.name) for each in plan.changes]


def problems(plan: ObjectPlan) -> list[tuple[str, str]]:
    return [(each.field, each.code) for each in plan.problems]


@pytest.mark.every_database
async def test_a_directory_is_applied_changed_and_pruned(world: World) -> None:
    nightly = job("nightly", triggers=[DAILY], children=[{"job": "invoices"}])
    chain = job("chain", handler=None, workflow={"steps": [{"key": "a", "job": "nightly"}]})
    documents = [chain, nightly, job(), BILLING]  # in the wrong order, on purpose
    plan = await world.gitops.plan(ADMIN, documents, owner=TEAM)
    assert plan.is_checked
    assert world.rows(sa.select(tables.executor.c.id)) == []  # nothing was written
    assert told(await applied(world, documents)) == [
        ("create", "billing"),
        ("create", "chain"),
        ("create", "nightly"),
        ("create", "invoices"),
    ]
    again = await world.gitops.plan(ADMIN, documents, owner=TEAM)
    assert (told(again), again.unchanged) == ([], 4)

    changed = [BILLING, job(description="x"), job("nightly", triggers=[DAILY])]
    plan = await applied(world, changed, prune=True)
    assert told(plan) == [("update", "invoices"), ("update", "nightly"), ("delete", "chain")]
    (nightly_change,) = (each for each in plan.changes if each.key.name == "nightly")
    assert nightly_change.differences == {"children": ([{"job": "invoices", "on": "success"}], [])}
    assert not any(each.is_drift for each in plan.changes)
    rows = world.rows(sa.select(tables.managed_object.c.type, tables.managed_object.c.mark))
    assert sorted(row.mark for row in rows if row.type == "job") == ["2", "2"]
    noted = world.audit()
    assert [action for action, _ in noted].count("gitops.applied") == 2
    assert ("job.deleted", plan.changes[2].object_id) in noted


async def test_one_refusal_keeps_all_from_being_written(world: World) -> None:
    documents = [
        BILLING,
        job(),
        job("b", triggers=[DAILY | {"calendar": "nowhere"}]),
        job("c", retries="x", triggers=[{"kind": "cron", "expression": "0 9 * * *", "x": 1}]),
    ]
    plan = await world.gitops.plan(ADMIN, documents, owner=TEAM)
    assert problems(plan) == [
        ("documents[3].retries", "wrong_type"),
        ("documents[3].triggers[0].x", "unknown_field"),
    ]
    plan = await world.gitops.plan(ADMIN, documents[:3], owner=TEAM)
    assert problems(plan) == [("documents[2].triggers[0].calendar", "calendar.unknown")]
    with pytest.raises(InvalidInput, match="nowhere"):
        await world.gitops.apply(ADMIN, documents[:3], owner=TEAM, fingerprint=plan.fingerprint)
    assert world.rows(sa.select(tables.executor.c.id)) == []
    assert world.audit() == []


async def test_an_edit_by_hand_is_drift_and_stops_a_plan_that_did_not_see_it(world: World) -> None:
    documents = [BILLING, job(), job("other")]
    await applied(world, documents)
    wanted = [BILLING, job(description="by file"), job("other")]
    plan = await world.gitops.plan(ADMIN, wanted, owner=TEAM)
    (change,) = plan.changes
    assert not change.is_drift
    page = await world.jobs.page(ADMIN, JobQuery())
    ids = {item.job.config.name: item.job.id for item in page.items}
    await world.jobs.update(ADMIN, ids["other"], JOB | {"name": "other", "priority": 2}, revision=1)
    with pytest.raises(Conflict, match="Plan again"):
        await world.gitops.apply(ADMIN, wanted, owner=TEAM, fingerprint=plan.fingerprint)
    plan = await world.gitops.plan(ADMIN, wanted, owner=TEAM)
    drifted = {each.key.name: each.is_drift for each in plan.changes}
    assert drifted == {"invoices": False, "other": True}
    await applied(world, wanted)
    assert told(await world.gitops.plan(ADMIN, wanted, owner=TEAM)) == []


@pytest.mark.every_database
async def test_of_two_applications_at_once_one_is_refused(world: World) -> None:
    """At two admins; `tests/interleavings/gitops` plays all orders of their statements."""
    await applied(world, [BILLING, job(), job("b")])
    wishes = [[BILLING, job(description=text), job("b", owner=text)] for text in ("a", "b")]
    plans = [await world.gitops.plan(ADMIN, each, owner=TEAM) for each in wishes]
    outcomes = await asyncio.gather(
        *(
            admin.apply(ADMIN, each, owner=TEAM, fingerprint=plan.fingerprint)
            for admin, each, plan in zip((world.gitops, other(world)), wishes, plans, strict=True)
        ),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in outcomes) == ["Conflict", "ObjectPlan"]
    found = {each.config.name: each.config for each in await stored_jobs(world)}
    assert found["invoices"].description == found["b"].owner != ""


@pytest.mark.every_database
async def test_of_an_application_and_an_edit_at_once_one_is_refused(world: World) -> None:
    await applied(world, [BILLING, job(), job("b")])
    wanted = [BILLING, job(description="applied"), job("b", description="applied")]
    plan = await world.gitops.plan(ADMIN, wanted, owner=TEAM)
    edited = next(each for each in await stored_jobs(world) if each.config.name == "b")
    raw = job_to_raw(edited.config) | {"description": "edited"}
    apply, edit = await asyncio.gather(
        other(world).apply(ADMIN, wanted, owner=TEAM, fingerprint=plan.fingerprint),
        world.jobs.update(ADMIN, edited.id, raw, revision=edited.revision),
        return_exceptions=True,
    )
    texts = {each.config.name: each.config.description for each in await stored_jobs(world)}
    if isinstance(apply, Conflict):
        assert texts == {"invoices": "", "b": "edited"}
    else:
        assert isinstance(edit, Conflict)
        assert texts == {"invoices": "applied", "b": "applied"}


async def test_each_change_needs_its_own_permission(world: World) -> None:
    await applied(world, [BILLING, job()], owner=None)
    billing = world.rows(sa.select(tables.executor.c.id))[0].id
    developer, viewer = actor_with(Role.DEVELOPER, billing), actor_with(Role.VIEWER, billing)
    assert told(await applied(world, [job(priority=3)], developer)) == [("update", "invoices")]
    plan = await world.gitops.plan(developer, [BILLING], owner=TEAM)
    assert (plan.is_allowed, told(plan)) == (False, [("adopt", "billing")])
    documents = [job(priority=4)]
    plan = await world.gitops.plan(viewer, documents, owner=TEAM)
    assert (plan.is_allowed, plan.is_checked, told(plan)) == (
        False,
        False,
        [("update", "invoices")],
    )
    with pytest.raises(NotAllowed, match="job billing/invoices"):
        await world.gitops.apply(viewer, documents, owner=TEAM, fingerprint=plan.fingerprint)
    stranger = actor_with(Role.DEVELOPER, billing + 1)
    plan = await world.gitops.plan(stranger, documents, owner=None)
    assert problems(plan) == [("documents[0].executor", "workflow.unknown_executor_name")]


async def test_what_another_directory_manages_is_taken_over_on_purpose_only(world: World) -> None:
    await applied(world, [BILLING, job()])
    plan = await world.gitops.plan(ADMIN, [job(priority=1)], owner="others")
    assert problems(plan) == [("documents[0].name", "gitops.other_owner")]
    plan = await applied(world, [job(priority=1)], owner="others", take_over=True)
    assert told(plan) == [("update", "invoices")]
    assert told(await world.gitops.plan(ADMIN, [BILLING], owner=TEAM, prune=True)) == []


async def test_documents_that_cannot_be_told_apart_are_refused(world: World) -> None:
    raw = [1, {"type": "jbo", "name": "x"}, job(), job(), {"type": "job", "name": "x"}]
    plan = await world.gitops.plan(ADMIN, [BILLING, *raw], owner=None)
    assert problems(plan)[:5] == [
        ("documents[1]", "wrong_type"),
        ("documents[2].type", "not_one_of"),
        ("documents[4].name", "gitops.duplicate"),
        ("documents[5].executor", "required"),
    ]


@pytest.mark.every_database
async def test_objects_of_every_type_follow_each_other(world: World) -> None:
    nightly = DAILY | {"calendar": "holidays"}
    calendars = [
        {"type": "calendar", "name": "holidays", "base": "weekend", "yearly": ["12-25"]},
        {"type": "calendar", "name": "weekend", "weekdays": ["sat", "sun"]},
    ]
    pool = {"type": "pool", "executor": "billing", "name": "ledger", "slots": 2}
    rule = {"type": "alarm_rule", "name": "late", "kind": "late", "quiet": {"calendar": "holidays"}}
    documents = [job(triggers=[nightly], pool="ledger"), rule, pool, *calendars, BILLING]
    assert len(told(await applied(world, documents))) == 6
    calendars[0]["description"] = "and Christmas"
    calendars[1]["weekdays"] = ["sun"]
    documents = [job(triggers=[nightly]), rule | {"enabled": False}, *calendars, BILLING]
    assert told(await applied(world, documents, prune=True)) == [
        ("update", "holidays"),
        ("update", "weekend"),
        ("update", "late"),
        ("update", "invoices"),
        ("delete", "ledger"),
    ]
    plan = await world.gitops.plan(
        ADMIN, [BILLING, job(triggers=[nightly])], owner=TEAM, prune=True
    )
    assert [code for _, code in problems(plan)] == ["calendar.in_use", "calendar.is_base"]
    assert len(told(await applied(world, [BILLING], prune=True))) == 4


async def test_names_that_nobody_may_see_are_no_secret_way_in(world: World) -> None:
    rule = {"type": "alarm_rule", "name": "own", "kind": "no_nodes", "scope": "executor"}
    await applied(world, [BILLING, rule | {"executor": "billing"}])
    other = await world.executor("other")
    developer = actor_with(Role.DEVELOPER, other)
    plan = await world.gitops.plan(developer, [rule | {"executor": "other"}], owner=None)
    assert problems(plan) == [("documents[0].name", "gitops.not_seen")]
    rule_of_job = {"type": "alarm_rule", "name": "x", "kind": "failed", "scope": "job"}
    plan = await world.gitops.plan(ADMIN, [rule_of_job], owner=None)
    assert problems(plan) == [("documents[0].scope", "gitops.rule_of_job")]


async def test_a_plan_of_many_jobs_asks_no_more_than_one_of_few(world: World) -> None:
    await applied(world, [BILLING])

    async def asked(jobs: int) -> int:
        documents = [job(f"job-{n}", triggers=[DAILY]) for n in range(jobs)]
        async with counted(world.database) as work:
            plan = await world.gitops.plan(ADMIN, documents, owner=TEAM)
        assert len(plan.changes) == jobs
        return sum("id_block" not in each and "BEGIN" not in each for each in work.texts)

    assert await asked(40) == await asked(4)
