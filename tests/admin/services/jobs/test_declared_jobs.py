"""Jobs declared in code: what processes say, what becomes of it, and what people decide."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.declared_code import NIGHTLY, Code
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tests.support.lost_answers import LosingAnswers
from tickwheel_admin.console.jobs import declared_labels
from tickwheel_admin.console.overview.attention_labels import concern_rows
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.input.node_manifest import UNUSABLE
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.jobs.declared import decisions
from tickwheel_admin.services.jobs.declared.service import DeclaredItem, DeclaredJobs
from tickwheel_admin.services.overview.attention.concern import AlarmKind
from tickwheel_admin.services.overview.attention.service import Attention
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids


@pytest.fixture
def code(world: World) -> Code:
    return Code(world)


@pytest.fixture
def declared(world: World) -> DeclaredJobs:
    return DeclaredJobs(world.database, Ids(world.database), world.events)


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


def changed(**fields: Any) -> dict[str, Any]:
    return NIGHTLY | fields


HOURLY = {"kind": "cron", "expression": "0 * * * *"}


# --- the policy to apply -------------------------------------------------------------------------


async def test_what_code_says_anew_changes_the_job_and_keeps_its_triggers(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await code.start(executor_id, NIGHTLY)
    job_id = (await one(declared, executor_id)).job_id
    assert job_id is not None
    [before] = world.triggers_of_job(job_id)
    told = await code.start(executor_id, changed(description="Sends them."), name="node-2")
    assert told == ["info: jobs declared in code: changed 'nightly'"]
    detail = await world.jobs.get(ADMIN, job_id)
    assert (detail.item.job.revision, detail.item.job.config.description) == (2, "Sends them.")
    [after] = world.triggers_of_job(job_id)
    assert after.id == before.id
    item = await one(declared, executor_id)
    assert (item.declared_by, item.differences) == ("node-2", [])
    assert world.audit()[1:] == [
        ("declared.applied", job_id),
        ("job.created", job_id),
        ("declared.applied", job_id),
        ("job.updated", job_id),
    ]
    (row,) = world.rows(sa.select(tables.job_revision).where(tables.job_revision.c.revision == 2))
    assert row.created_by == "code:node-2"


def everything(world: World) -> list[Any]:
    """All that declarations may write, but for the nodes' own rows."""
    return [
        world.rows(sa.select(table).order_by(*table.primary_key.columns))
        for table in (
            tables.executor,
            tables.job,
            tables.job_revision,
            tables.trigger,
            tables.declared_job,
            tables.handler_schema,
            tables.audit,
        )
    ]


async def test_a_process_that_says_nothing_new_writes_nothing(
    world: World, code: Code, executor_id: int
) -> None:
    await world.jobs.create(ADMIN, executor_id, JOB | {"name": "by hand"})
    said = [
        NIGHTLY,
        changed(name="by hand"),
        changed(name="broken", triggers=[{"kind": "cron", "expression": "x"}]),
    ]
    schemas = {"send-invoices": {"type": "object"}}
    first = await code.start(executor_id, *said, schemas=schemas)
    before = everything(world)
    again = await code.start(executor_id, *said, schemas=schemas, name="node-2")
    assert everything(world) == before
    assert again == [each for each in first if "created" not in each]
    assert [each.split(":")[0] for each in again] == ["error", "warning"]


async def test_only_a_new_process_is_listened_to(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    first = await code.admit(executor_id, key="a" * 32)
    assert not first.manifest_is_read
    await code.look(first, NIGHTLY)
    await code.start(executor_id, changed(priority=3))
    assert (await code.admit(executor_id, key="a" * 32)).manifest_is_read
    # Over a second socket, or again because nobody heard the answer: it is the older process.
    assert await code.look(first, NIGHTLY) == []
    item = await one(declared, executor_id)
    assert item.job_id is not None
    assert (await world.jobs.get(ADMIN, item.job_id)).item.job.config.priority == 3


async def test_a_process_that_an_admin_never_looked_at_is_looked_at_when_it_comes_back(
    code: Code, executor_id: int
) -> None:
    await code.admit(executor_id, key="a" * 32)  # the admin died
    again = await code.admit(executor_id, key="a" * 32)
    assert not again.manifest_is_read
    assert await code.look(again, NIGHTLY) == ["info: jobs declared in code: created 'nightly'"]


async def test_the_newer_of_two_processes_wins_in_whatever_order_they_are_looked_at(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    """Also when it finds its own words written already, and so writes nothing."""
    await code.start(executor_id, NIGHTLY)
    old = await code.admit(executor_id, name="old")
    new = await code.admit(executor_id, name="new")
    world.change(
        sa.update(tables.node)
        .where(tables.node.c.id == new.node_id)
        .values(connected_at=tables.node.c.connected_at + 5)
    )
    (row,) = world.rows(sa.select(tables.node).where(tables.node.c.id == new.node_id))
    new = await code.admit(executor_id, name="new", key=row.node_key)
    await code.look(new, NIGHTLY)
    assert await code.look(old, changed(priority=1)) == []
    item = await one(declared, executor_id)
    assert item.job_id is not None
    assert (await world.jobs.get(ADMIN, item.job_id)).item.job.revision == 1
    # A third one, later still, may say so.
    await code.start(executor_id, changed(priority=1))
    assert (await world.jobs.get(ADMIN, item.job_id)).item.job.config.priority == 1


async def test_a_paused_job_stays_paused(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await code.start(executor_id, NIGHTLY)
    job_id = (await one(declared, executor_id)).job_id
    assert job_id is not None
    await world.jobs.pause(ADMIN, job_id)
    await code.start(executor_id, changed(triggers=[HOURLY]))
    assert (await world.jobs.get(ADMIN, job_id)).item.job.paused
    await world.jobs.run_now(ADMIN, job_id)


# --- what cannot be used -------------------------------------------------------------------------


async def test_broken_declarations_are_told_and_the_job_stays_as_it_was(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await code.start(executor_id, NIGHTLY)
    broken = changed(timeout_seconds="x", triggers=[{"kind": "cron", "expression": "61 * * * *"}])
    (told,) = await code.start(executor_id, broken)
    assert told.startswith("error: the declared job 'nightly' cannot be used: timeout_seconds: ")
    assert "triggers[0].expression: " in told
    item = await one(declared, executor_id)
    assert (item.state, item.managed) == ("invalid", True)
    assert [each.field for each in item.problems] == ["timeout_seconds", "triggers[0].expression"]
    assert item.job_id is not None
    assert (await world.jobs.get(ADMIN, item.job_id)).item.job.revision == 1
    with pytest.raises(InvalidInput):
        await declared.accept(ADMIN, executor_id, "nightly")
    assert await code.start(executor_id, NIGHTLY) == []  # as the job is
    assert (await one(declared, executor_id)).state == "applied"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"handler": "send-invoice"}, "handler"),
        ({"triggers": [HOURLY | {"calendar": "none"}]}, "triggers[0].calendar"),
        ({"triggers": [{"kind": "once", "at": "2001-01-01T00:00:00Z"}]}, "triggers[0]"),
        ({"parameters": {"month": 5}}, "parameters.month"),
    ],
)
async def test_what_only_the_database_knows_is_wrong(
    world: World,
    code: Code,
    declared: DeclaredJobs,
    executor_id: int,
    fields: dict[str, Any],
    field: str,
) -> None:
    schemas = {"send-invoices": {"properties": {"month": {"type": "string"}}}}
    (told,) = await code.start(executor_id, changed(**fields), schemas=schemas)
    assert told.startswith(f"error: the declared job 'nightly' cannot be used: {field}: ")
    item = await one(declared, executor_id)
    assert (item.state, item.managed, item.job_id) == ("invalid", False, None)
    assert world.rows(sa.select(tables.job)) == []
    assert world.rows(sa.select(tables.trigger)) == []


async def test_children_in_other_executors_are_not_for_code_to_start(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    foreign = await world.jobs.create(ADMIN, await world.executor("other"), JOB)
    own = await world.jobs.create(ADMIN, executor_id, JOB)
    (told,) = await code.start(executor_id, changed(children=[{"job": foreign}]))
    assert f"children[0].job: There is no job {foreign}, or you may not see it." in told
    await code.start(executor_id, changed(children=[{"job": own}]))
    item = await one(declared, executor_id)
    assert item.state == "applied"
    # A person who may is not code.
    await code.start(executor_id, changed(children=[{"job": foreign}]))
    await declared.accept(ADMIN, executor_id, "nightly")
    assert item.job_id is not None
    config = (await world.jobs.get(ADMIN, item.job_id)).item.job.config
    assert [link.job_id for link in config.children] == [foreign]


async def test_a_declaration_that_becomes_possible_is_applied_by_the_next_process(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    said = changed(triggers=[HOURLY | {"calendar": "feiertage"}])
    await code.start(executor_id, said)
    assert (await one(declared, executor_id)).state == "invalid"
    await world.calendars.create(ADMIN, {"name": "feiertage"})
    await code.start(executor_id, said)
    assert (await one(declared, executor_id)).state == "applied"


async def test_what_names_no_job_at_all_is_only_told(
    code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    said = [5, {}, {"name": "a\nb"}, {"name": "x" * 201}, NIGHTLY, changed(priority=1)]
    told = await code.start(executor_id, *said)  # type: ignore[arg-type]
    assert told[:5] == [
        f"error: declared job 1 {UNUSABLE}",
        "error: declared job 2: name: This is required.",
        "error: declared job 3: name: Line ends and control characters are not allowed here.",
        "error: declared job 4: name: At most 200 characters, please.",
        "error: the job 'nightly' is declared twice; the first counts",
    ]
    assert [item.name for item in await declared.list(ADMIN, executor_id)] == ["nightly"]
    (told,) = await code.start(executor_id, *(changed(name=f"job {n}") for n in range(501)))
    assert told.startswith("error: more than 500 jobs, or 1024 KiB of them, are declared")


# --- people --------------------------------------------------------------------------------------


async def test_people_do_not_edit_what_code_manages(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await code.start(executor_id, NIGHTLY)
    job_id = (await one(declared, executor_id)).job_id
    assert job_id is not None
    with pytest.raises(Conflict, match="declared in code") as caught:
        await world.jobs.update(ADMIN, job_id, NIGHTLY | {"owner": "ada"}, revision=1)
    assert caught.value.code == "job.managed_by_code"
    await declared.release(ADMIN, executor_id, "nightly")
    await declared.release(ADMIN, executor_id, "nightly")
    assert not (await world.jobs.get(ADMIN, job_id)).managed
    await world.jobs.update(ADMIN, job_id, NIGHTLY | {"owner": "ada"}, revision=1)
    told = await code.start(executor_id, changed(priority=1))
    page = f"/executors/{executor_id}/declared-jobs"
    assert told == [f"info: declared jobs no longer managed by code: {page}: 'nightly'"]
    item = await one(declared, executor_id)
    assert (item.state, item.managed, item.job_id) == ("released", False, job_id)
    fields = {each.field: (each.before, each.after) for each in item.differences}
    assert fields == {"owner": ("ada", ""), "priority": (5, 1)}
    assert await declared.accept(ADMIN, executor_id, "nightly") == job_id
    job = (await world.jobs.get(ADMIN, job_id)).item
    assert (job.managed, job.job.config.owner, job.job.config.priority) == (True, "", 1)


async def test_a_deleted_job_is_not_made_again(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await code.start(executor_id, NIGHTLY)
    job_id = (await one(declared, executor_id)).job_id
    assert job_id is not None
    await world.jobs.delete(ADMIN, job_id)
    (row,) = world.rows(sa.select(tables.audit).where(tables.audit.c.action == "job.deleted"))
    assert '"declared":"ignored"' in row.detail
    for said in (NIGHTLY, changed(priority=1)):
        (told,) = await code.start(executor_id, said)
        assert told.startswith("info: declared jobs ignored: ")
        assert told.endswith("'nightly' (somebody deleted the job)")
    item = await one(declared, executor_id)
    assert (item.state, item.reason, item.job_id) == ("ignored", "deleted", None)
    new_id = await declared.accept(ADMIN, executor_id, "nightly")
    assert new_id != job_id
    assert (await world.jobs.get(ADMIN, new_id)).item.job.config.priority == 1


async def test_a_job_that_a_person_made_is_asked_about(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, NIGHTLY | {"owner": "ada"})
    (told,) = await code.start(executor_id, NIGHTLY)
    assert told == (
        "warning: declared jobs waiting for a person:"
        f" /executors/{executor_id}/declared-jobs: 'nightly' (a job of this name was not made by"
        " code)"
    )
    item = await one(declared, executor_id)
    assert (item.state, item.reason, item.job_id, item.managed) == (
        "waiting",
        "made_by_hand",
        job_id,
        False,
    )
    assert [(each.field, each.before, each.after) for each in item.differences] == [
        ("owner", "ada", "")
    ]
    await world.jobs.update(ADMIN, job_id, NIGHTLY | {"owner": "bob"}, revision=1)
    await declared.ignore(ADMIN, executor_id, "nightly")
    assert (await one(declared, executor_id)).state == "ignored"
    await code.start(executor_id, changed(priority=1))
    assert (await world.jobs.get(ADMIN, job_id)).item.job.config.priority == 5
    assert await declared.accept(ADMIN, executor_id, "nightly") == job_id
    assert (await world.jobs.get(ADMIN, job_id)).managed


# --- renamed and removed -------------------------------------------------------------------------


async def test_a_new_name_is_asked_about_and_keeps_the_job(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await code.start(executor_id, NIGHTLY, changed(name="untouched", triggers=[HOURLY]))
    job_id = (await one(declared, executor_id)).job_id
    assert job_id is not None
    (told,) = await code.start(
        executor_id,
        changed(name="every night", priority=2),
        changed(name="untouched", triggers=[HOURLY]),
    )
    assert told.endswith("'every night' (probably the new name of 'nightly')")
    item = await one(declared, executor_id, "every night")
    assert (item.state, item.reason, item.renamed_from) == ("waiting", "renamed", "nightly")
    assert (item.job_id, item.job_name, item.managed) == (job_id, "nightly", False)
    assert [each.field for each in item.differences] == ["name", "priority"]
    assert len(world.rows(sa.select(tables.job))) == 2
    accepted = await declared.accept(ADMIN, executor_id, "every night", rename_from="nightly")
    assert accepted == job_id
    job = (await world.jobs.get(ADMIN, job_id)).item.job
    assert (job.config.name, job.config.priority) == ("every night", 2)
    assert [each.name for each in await declared.list(ADMIN, executor_id)] == [
        "every night",
        "untouched",
    ]


async def test_a_new_name_that_is_another_job_is_accepted_as_one(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await code.start(executor_id, NIGHTLY)
    await code.start(executor_id, changed(name="another"))
    new_id = await declared.accept(ADMIN, executor_id, "another")
    nightly = await one(declared, executor_id)
    assert new_id != nightly.job_id
    assert len(world.rows(sa.select(tables.job))) == 2
    with pytest.raises(InvalidInput) as caught:
        await declared.accept(ADMIN, executor_id, "another", rename_from="nightly")
    assert caught.value.problems[0].code == "declared.has_job"
    with pytest.raises(InvalidInput) as caught:
        await declared.accept(ADMIN, executor_id, "another", rename_from="nobody")
    assert caught.value.problems[0].code == "declared.not_managed"


async def test_a_new_name_of_a_job_that_was_released_is_no_new_name(
    code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    """Its page offered a rename that could only be refused."""
    await code.start(executor_id, NIGHTLY)
    await code.start(executor_id, changed(name="every night"))
    await declared.release(ADMIN, executor_id, "nightly")
    item = await one(declared, executor_id, "every night")
    assert (item.state, item.renamed_from, item.job_id) == ("waiting", None, None)
    assert "None" not in declared_labels.explanation(item)


async def test_without_triggers_nothing_would_fire_twice(
    code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await code.start(executor_id, changed(triggers=[]))
    await code.start(executor_id, changed(name="other", triggers=[]))
    assert (await one(declared, executor_id, "other")).state == "applied"


async def test_what_code_declares_no_more_is_shown_and_goes_on(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    old = await code.admit(executor_id)
    await code.look(old, NIGHTLY)
    await code.start(executor_id, changed(name="other", triggers=[HOURLY]))
    assert not (await one(declared, executor_id)).undeclared  # by the older process, in a rollout
    await code.end(world, old)
    item = await one(declared, executor_id)
    assert item.undeclared
    assert (item.state, item.managed) == ("applied", True)
    assert item.job_id is not None
    assert len(world.triggers_of_job(item.job_id)) == 1
    await world.jobs.delete(ADMIN, item.job_id)
    assert [each.name for each in await declared.list(ADMIN, executor_id)] == ["other"]
    # It is a new job when code declares it again.
    await code.start(executor_id, NIGHTLY, changed(name="other", triggers=[HOURLY]))
    assert (await one(declared, executor_id)).state == "applied"


async def test_without_a_live_node_nothing_is_known_to_be_gone(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    node = await code.admit(executor_id)
    await code.look(node, NIGHTLY)
    await code.end(world, node)
    assert not (await one(declared, executor_id)).undeclared


async def test_what_waits_is_forgotten_when_code_takes_it_back(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await declared.set_policy(ADMIN, executor_id, "ask")
    node = await code.admit(executor_id)
    await code.look(node, NIGHTLY)
    assert (await world.executors.get(ADMIN, executor_id)).item.declared_waiting == 1
    await code.start(executor_id, changed(name="other", triggers=[HOURLY]))
    assert (await world.executors.get(ADMIN, executor_id)).item.declared_waiting == 2
    await code.end(world, node)
    assert (await world.executors.get(ADMIN, executor_id)).item.declared_waiting == 1
    assert [each.name for each in await declared.list(ADMIN, executor_id)] == ["other"]
    await code.start(executor_id, changed(name="other", triggers=[HOURLY]))
    assert [row.name for row in world.rows(sa.select(tables.declared_job.c.name))] == ["other"]


async def test_programs_of_one_executor_declare_what_is_theirs(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    other = changed(name="other", triggers=[HOURLY])
    await code.start(executor_id, NIGHTLY)
    await code.start(executor_id, other)
    await code.start(executor_id, changed(priority=1))
    found = await declared.list(ADMIN, executor_id)
    assert [(each.name, each.state, each.declared_now) for each in found] == [
        ("nightly", "applied", True),
        ("other", "applied", True),
    ]
    assert world.audit().count(("declared.applied", found[1].job_id)) == 1


async def test_a_rolling_deploy_forth_and_back(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    """The process that started last counts, whichever version that is."""
    for priority in (1, 2, 1, 2, 2):
        await code.start(executor_id, changed(priority=priority))
        item = await one(declared, executor_id)
        assert item.job_id is not None
        job = (await world.jobs.get(ADMIN, item.job_id)).item.job
        assert job.config.priority == priority
    assert job.revision == 4


# --- the other policies --------------------------------------------------------------------------


async def test_with_ask_a_person_decides_on_each_change(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await declared.set_policy(ADMIN, executor_id, "ask")
    (told,) = await code.start(executor_id, NIGHTLY)
    assert told.endswith("'nightly' (this executor's policy is to ask)")
    item = await one(declared, executor_id)
    assert (item.state, item.reason, item.job_id) == ("waiting", "policy_ask", None)
    assert [(each.field, each.before) for each in item.differences] == [
        ("name", None),
        ("handler", None),
        ("triggers", None),
    ]
    job_id = await declared.accept(ADMIN, executor_id, "nightly")
    assert await declared.accept(ADMIN, executor_id, "nightly") == job_id
    await code.start(executor_id, changed(priority=1))
    item = await one(declared, executor_id)
    assert (item.state, item.managed, item.job_id) == ("waiting", True, job_id)
    assert [(each.field, each.before, each.after) for each in item.differences] == [
        ("priority", 5, 1)
    ]
    await declared.ignore(ADMIN, executor_id, "nightly")
    await code.start(executor_id, changed(priority=1))
    item = await one(declared, executor_id)
    assert (item.state, item.reason, item.managed) == ("ignored", "person", True)
    await code.start(executor_id, changed(priority=2))
    assert (await one(declared, executor_id)).state == "waiting"
    await declared.accept(ADMIN, executor_id, "nightly")
    assert (await world.jobs.get(ADMIN, job_id)).item.job.config.priority == 2
    with pytest.raises(Conflict) as caught:
        await declared.ignore(ADMIN, executor_id, "nightly")
    assert caught.value.code == "declared.applied"


async def test_with_ignore_nothing_happens_until_the_policy_is_another(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await declared.set_policy(ADMIN, executor_id, "ignore")
    (told,) = await code.start(executor_id, NIGHTLY)
    assert told.endswith("'nightly' (this executor's policy is to ignore them)")
    assert (await one(declared, executor_id)).reason == "policy_ignore"
    assert world.rows(sa.select(tables.job)) == []
    with pytest.raises(Conflict) as caught:
        await declared.release(ADMIN, executor_id, "nightly")
    assert caught.value.code == "declared.not_managed"
    for policy, state in (("ask", "waiting"), ("apply", "applied"), ("ignore", "applied")):
        await declared.set_policy(ADMIN, executor_id, policy)
        await code.start(executor_id, NIGHTLY)
        assert (await one(declared, executor_id)).state == state
    assert (await world.executors.get(ADMIN, executor_id)).item.code_jobs == "ignore"
    with pytest.raises(InvalidInput):
        await declared.set_policy(ADMIN, executor_id, "aply")


async def test_who_may(world: World, code: Code, declared: DeclaredJobs, executor_id: int) -> None:
    await code.start(executor_id, NIGHTLY)
    stranger = actor_with(Role.ADMIN, executor_id + 1)
    operator = actor_with(Role.OPERATOR, executor_id)
    developer = actor_with(Role.DEVELOPER, executor_id)
    assert len(await declared.list(operator, executor_id)) == 1
    for who, error in ((operator, NotAllowed), (stranger, NotFound)):
        for decide in (declared.accept, declared.ignore, declared.release):
            with pytest.raises(error):
                await decide(who, executor_id, "nightly")
    with pytest.raises(NotFound):
        await declared.list(stranger, executor_id)
    with pytest.raises(NotAllowed):
        await declared.set_policy(developer, executor_id, "ask")
    await declared.release(developer, executor_id, "nightly")
    for decide in (declared.accept, declared.ignore, declared.release):
        with pytest.raises(NotFound):
            await decide(developer, executor_id, "nobody says this")


async def test_an_executor_takes_its_declarations_along(
    world: World, code: Code, executor_id: int
) -> None:
    node = await code.admit(executor_id)
    await code.look(node, NIGHTLY)
    late = await code.admit(executor_id)
    await world.executors.delete(ADMIN, executor_id, with_jobs=True)
    assert world.rows(sa.select(tables.declared_job)) == []
    assert await code.look(late, NIGHTLY, schemas={"send-invoices": {}}) == []
    assert world.rows(sa.select(tables.declared_job)) == []
    assert world.rows(sa.select(tables.handler_schema)) == []


# --- answers that are lost -----------------------------------------------------------------------


async def test_a_commit_whose_answer_was_lost_is_not_done_twice(
    world: World, executor_id: int
) -> None:
    losing = LosingAnswers(world.database)
    code = Code(world, losing)
    declared = DeclaredJobs(losing, Ids(world.database), world.events)
    told = await code.start(executor_id, NIGHTLY)
    assert told == ["info: jobs declared in code: created 'nightly'"]
    await code.start(executor_id, changed(priority=1))
    item = await one(declared, executor_id)
    assert item.job_id is not None
    assert (await world.jobs.get(ADMIN, item.job_id)).item.job.revision == 2
    await declared.release(ADMIN, executor_id, "nightly")
    assert await declared.accept(ADMIN, executor_id, "nightly") == item.job_id
    await code.start(executor_id, changed(name="new", triggers=[HOURLY]))
    await declared.set_policy(ADMIN, executor_id, "ask")
    await code.start(executor_id, changed(name="new", priority=7, triggers=[HOURLY]))
    await declared.ignore(ADMIN, executor_id, "new")
    assert losing.lost == 7
    actions = [action for action, _ in world.audit()]
    assert sorted(actions) == [
        "declared.accepted",
        "declared.applied",
        "declared.applied",
        "declared.applied",
        "declared.ignored",
        "declared.released",
        "executor.code_jobs_set",
        "executor.created",
        "job.created",
        "job.created",
        "job.updated",
    ]


async def test_a_process_that_was_not_looked_at_yet_may_declare_anything(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    old = await code.admit(executor_id)
    await code.look(old, NIGHTLY)
    late = await code.admit(executor_id)
    await code.end(world, old)
    item = await one(declared, executor_id)
    assert not item.undeclared
    assert item.job_id is not None
    await world.jobs.delete(ADMIN, item.job_id)
    await code.look(late, NIGHTLY)
    item = await one(declared, executor_id)
    assert (item.state, item.reason) == ("ignored", "deleted")


async def test_an_executor_has_room_for_a_number_of_declarations(
    code: Code, declared: DeclaredJobs, executor_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "MAX_KNOWN", 3)
    first = await code.admit(executor_id)
    await code.look(first, *(changed(name=f"a{n}", triggers=[]) for n in range(2)))
    second = await code.admit(executor_id)
    jobs = [changed(name=name, triggers=[]) for name in ("a0", "b0", "b1", "b2")]
    told = await code.look(second, *jobs)
    assert [item.name for item in await declared.list(ADMIN, executor_id)] == ["a0", "a1", "b0"]
    assert any("2 of its declared jobs, 'b1' for one, are not looked at" in each for each in told)


# --- attention -----------------------------------------------------------------------------------


async def test_what_breaks_a_rule_needs_attention_until_code_says_something_else(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    broken = await code.admit(executor_id)
    await code.look(broken, changed(priority=99))
    (concern,) = await Attention(world.database).get(ADMIN)
    assert (concern.kind, concern.severity) == (AlarmKind.DECLARED_BROKEN, "warning")
    assert concern.params == {"executor": "billing", "names": NIGHTLY["name"]}
    mended = await code.admit(executor_id)
    await code.look(mended, NIGHTLY)
    assert await Attention(world.database).get(ADMIN) == []


async def test_what_waits_needs_attention(
    world: World, code: Code, declared: DeclaredJobs, executor_id: int
) -> None:
    await declared.set_policy(ADMIN, executor_id, "ask")
    said = [changed(name=f"job {n}", triggers=[]) for n in range(5)]
    node = await code.admit(executor_id)
    await code.look(node, *said)
    attention = Attention(world.database)
    (concern,) = await attention.get(ADMIN)
    assert (concern.kind, concern.severity, concern.executor_id) == (
        AlarmKind.DECLARED_WAITING,
        "warning",
        executor_id,
    )
    assert concern.params == {"executor": "billing", "names": "job 0, job 1, job 2 +2"}
    (row,) = world.rows(sa.select(tables.node.c.connected_at))
    assert concern.since == row.connected_at
    assert await attention.get(actor_with(Role.ADMIN, executor_id + 1)) == []
    (words,) = concern_rows([concern])
    assert words.href == f"/executors/{executor_id}/declared-jobs"
    for each in said:
        await declared.ignore(ADMIN, executor_id, each["name"])
    assert await Attention(world.database).get(ADMIN) == []
