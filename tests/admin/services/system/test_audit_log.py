"""The audit for people: who sees what, filters, pages, and the index that each of them reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Actor, Role
from tickwheel_admin.services.jobs import bulk as job_bulk
from tickwheel_admin.services.jobs.bulk import JobAction, JobBulk, JobChange
from tickwheel_admin.services.jobs.service import JobQuery
from tickwheel_admin.services.system.audit import AuditItem, AuditLog, AuditQuery
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.system import audit_pages

START = 1_800_000_000_000


def note(world: World, *rows: dict[str, Any]) -> None:
    """Changes, each a second after the one before; ids fall, so that only times tell the order."""
    world.change(
        *(
            sa.insert(tables.audit).values(
                {
                    "id": 10_000 - place,
                    "at": START + place * 1_000,
                    "user_id": 1,
                    "user_name": "ada",
                    "address": "192.0.2.1",
                    "action": "job.updated",
                    "executor_id": None,
                    "object_id": 7,
                    "detail": f'{{"place":{place}}}',
                }
                | row
            )
            for place, row in enumerate(rows)
        )
    )


def places(items: list[AuditItem]) -> list[int]:
    return [each.detail["place"] for each in items]


async def all_of(
    log: AuditLog, query: AuditQuery | None = None, *, actor: Actor = ADMIN, limit: int = 2
) -> list[int]:
    """Every page of a list, one after the other."""
    found: list[int] = []
    cursor = None
    while True:
        page = await log.page(actor, query or AuditQuery(), cursor, limit)
        assert len(page.items) <= limit
        found += places(page.items)
        cursor = page.next
        if cursor is None:
            return found


@pytest.mark.parametrize("query", [AuditQuery(), AuditQuery(action="user.")])
async def test_one_goes_back_by_the_pages_one_came_by(world: World, query: AuditQuery) -> None:
    """Also in the same instant, and with entries between that do not fit."""
    log = AuditLog(world.database)
    note(world, *({"action": f"{noun}.updated"} for noun in ("user", "job") for _ in range(5)))
    world.change(sa.update(tables.audit).where(tables.audit.c.id % 3 == 0).values(at=START))
    pages, cursor = [], None
    while True:
        page = await log.page(ADMIN, query, cursor, 2)
        pages.append(places(page.items))
        cursor = page.next
        if cursor is None:
            break
    back = [pages[-1]]
    while page.previous is not None:
        page = await log.page(ADMIN, query, page.previous, 2)
        assert page.next is not None
        back.insert(0, places(page.items))
    assert back == pages


async def test_changes_are_told_newest_first_with_all_that_is_known(world: World) -> None:
    log = AuditLog(world.database)
    executor_id = await world.executor("billing")
    world.change(sa.delete(tables.audit))
    note(world, {}, {"executor_id": executor_id})
    page = await log.page(ADMIN, AuditQuery())
    assert places(page.items) == [1, 0]
    assert page.items[0] == AuditItem(
        id=9_999,
        at=START + 1_000,
        user_name="ada",
        address="192.0.2.1",
        action="job.updated",
        executor_id=executor_id,
        executor_name="billing",
        object_id=7,
        detail={"place": 1},
    )
    assert (page.items[1].executor_id, page.items[1].executor_name) == (None, None)


async def test_every_filter_finds_its_own_and_pages_miss_and_repeat_nothing(world: World) -> None:
    log = AuditLog(world.database)
    note(
        world,
        {"user_name": "olga", "executor_id": 5},
        {"action": "job.deleted", "object_id": 8},
        {"action": "user.created", "executor_id": 5, "at": START},  # at the same time as the first
        {"user_name": "olga", "action": "job_state.set"},
        {"executor_id": 6, "object_id": 8},
    )
    everything = AuditQuery()
    assert await all_of(log) == [4, 3, 1, 0, 2]
    assert await all_of(log, replace(everything, person=" Olga ")) == [3, 0]
    assert await all_of(log, replace(everything, action="job.")) == [4, 1, 0]
    assert await all_of(log, replace(everything, action="user.created")) == [2]
    assert await all_of(log, replace(everything, action="%")) == []
    assert await all_of(log, replace(everything, executor_id=5)) == [0, 2]
    assert await all_of(log, replace(everything, object_id=8)) == [4, 1]
    assert await all_of(log, replace(everything, object_id=8, action="job.u")) == [4]
    assert await all_of(log, replace(everything, person="olga", executor_id=5)) == [0]
    between = replace(everything, from_at=START + 1_000, to_at=START + 4_000)
    assert await all_of(log, between) == [3, 1]


async def test_an_administrator_of_some_executors_sees_what_concerns_those(world: World) -> None:
    log = AuditLog(world.database)
    note(world, {"executor_id": 5}, {"executor_id": 6}, {}, {"executor_id": 5}, {"executor_id": 7})
    of_two = actor_with(Role.ADMIN, 5, 7)
    assert await all_of(log, actor=of_two, limit=1) == [4, 3, 0]
    assert await all_of(log, AuditQuery(executor_id=5), actor=of_two) == [3, 0]
    assert await all_of(log, AuditQuery(person="ada"), actor=of_two) == [4, 3, 0]
    of_many = actor_with(Role.ADMIN, *range(5, 40))  # too many to read one by one
    assert await all_of(log, actor=of_many) == [4, 3, 1, 0]
    for executor_id in (6, 999):
        with pytest.raises(NotFound):
            await log.page(of_two, AuditQuery(executor_id=executor_id))
    with pytest.raises(NotAllowed):
        await log.page(
            Actor(user_id=3, name="x", grants={ALL_EXECUTORS: Role.DEVELOPER}), AuditQuery()
        )
    with pytest.raises(NotFound):
        await log.page(actor_with(Role.DEVELOPER, 5), AuditQuery())


async def test_a_rare_change_is_looked_for_in_steps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_pages, "CHUNK", 5)
    monkeypatch.setattr(audit_pages, "MAX_SCANNED", 10)
    log = AuditLog(world.database)
    note(world, {"action": "user.created"}, *([{}] * 25))
    page = await log.page(ADMIN, AuditQuery(action="user."))
    assert page.items == []
    assert page.next is not None
    assert await all_of(log, AuditQuery(action="user.")) == [0]


async def test_many_executors_are_not_each_looked_through_as_if_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_pages, "CHUNK", 2)
    monkeypatch.setattr(audit_pages, "MAX_SCANNED", 10)
    log, actor = AuditLog(world.database), actor_with(Role.ADMIN, *range(5, 15))
    note(world, *({"executor_id": 5 + place % 10} for place in range(100)))
    statements: list[str] = []
    sa.event.listen(
        world.database.engine,
        "before_cursor_execute",
        lambda conn, cursor, statement, *more: statements.append(statement),
    )

    page = await log.page(actor, AuditQuery(action="user."))

    assert page.next is not None
    assert len([each for each in statements if "FROM audit" in each]) <= 10
    assert await all_of(log, AuditQuery(action="user."), actor=actor) == []
    assert len(await all_of(log, AuditQuery(action="job."), actor=actor, limit=7)) == 100


@pytest.mark.parametrize("cursor", ["x", "W10", "eyJhdCI6LTEsImlkIjowfQ", "a" * 5_000])
async def test_a_made_up_place_is_refused(world: World, cursor: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await AuditLog(world.database).page(ADMIN, AuditQuery(), cursor)
    assert refusal.value.problems[0].field == "cursor"


@pytest.mark.parametrize(
    ("wanted", "one", "index"),
    [
        (audit_pages.AuditConditions(), None, "ix_audit_recent"),
        (audit_pages.AuditConditions(from_at=1, to_at=2), None, "ix_audit_recent"),
        (audit_pages.AuditConditions(), 5, "ix_audit_of_executor"),
        (audit_pages.AuditConditions(person="ada"), None, "ix_audit_by_person"),
        (
            audit_pages.AuditConditions(person="ada", objects=frozenset({7})),
            7,
            "ix_audit_of_object",
        ),
        (audit_pages.AuditConditions(part_of=3), None, "ix_audit_recent"),
    ],
)
@pytest.mark.parametrize("newer", [False, True])
def test_every_page_is_a_range_of_an_index_and_sorts_nothing(
    world: World, wanted: audit_pages.AuditConditions, one: int | None, index: str, newer: bool
) -> None:
    before = audit_pages.AuditPosition(at=START, id=1)
    statement = audit_pages._keys(wanted, one, before, newer).limit(50)
    compiled = statement.compile(world.database.engine, compile_kwargs={"literal_binds": True})
    plan = " ".join(row.detail for row in world.rows(sa.text(f"EXPLAIN QUERY PLAN {compiled}")))  # type: ignore[arg-type]
    assert index in plan
    assert "TEMP B-TREE" not in plan


# --- bulk actions and objects ----------------------------------------------------------------


async def test_a_bulk_action_is_one_entry_for_each_executor_with_all_its_changes_behind_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many steps it took; a single change is an entry by itself."""
    monkeypatch.setattr(job_bulk, "STEP", 2)
    log, ids = AuditLog(world.database), Ids(world.database)
    bulk = JobBulk(world.database, ids, world.jobs)
    billing, crm = [await world.executor(name) for name in ("billing", "crm")]
    jobs = {
        (owner, name): await world.jobs.create(ADMIN, owner, JOB | {"name": name})
        for name, owner in (("a", billing), ("b", crm), ("c", billing), ("d", billing))
    }
    pause, cursor = JobChange(action=JobAction.PAUSE), None
    for _ in range(2):
        step = await bulk.matching(ADMIN, JobQuery(), pause, cursor=cursor)
        cursor = step.next
    assert cursor is None
    entries = (await log.page(ADMIN, AuditQuery(action="jobs."))).items
    assert {e.executor_name: e.detail["done"] for e in entries} == {"billing": 3, "crm": 1}
    of_billing = next(e for e in entries if e.executor_id == billing)
    assert [part.job_name for part in of_billing.parts] == ["a", "c", "d"]
    assert (await log.page(ADMIN, AuditQuery(action="job.paused"))).items == []
    parts = (await log.page(ADMIN, AuditQuery(part_of=of_billing.id))).items
    assert {part.object_id for part in parts} == {
        job_id for (owner, _), job_id in jobs.items() if owner == billing
    }
    only_crm = actor_with(Role.ADMIN, crm)
    seen = (await log.page(only_crm, AuditQuery(action="jobs."))).items
    assert [e.executor_name for e in seen] == ["crm"]
    assert (await log.page(only_crm, AuditQuery(part_of=of_billing.id))).items == []
    await bulk.many(ADMIN, [jobs[billing, "a"]], JobChange(action=JobAction.RESUME))
    (single,) = (await log.page(ADMIN, AuditQuery(action="job.resumed"))).items
    assert single.part_of == 0


async def test_a_made_up_cursor_joins_nobody_elses_bulk_action(world: World) -> None:
    log, ids = AuditLog(world.database), Ids(world.database)
    bulk = JobBulk(world.database, ids, world.jobs)
    billing = await world.executor()
    jobs = [await world.jobs.create(ADMIN, billing, JOB | {"name": name}) for name in "ab"]
    await bulk.many(ADMIN, jobs, JobChange(action=JobAction.PAUSE))
    (entry,) = (await log.page(ADMIN, AuditQuery(action="jobs."))).items
    place = (await world.jobs.page(ADMIN, JobQuery(), limit=1)).next
    other = actor_with(Role.DEVELOPER, billing)
    resume = JobChange(action=JobAction.RESUME)
    await bulk.matching(other, JobQuery(), resume, cursor=f"{entry.object_id}.{place}")
    theirs, same = (await log.page(ADMIN, AuditQuery(action="jobs."))).items
    assert (theirs.user_name, theirs.detail["done"]) == ("bob", 1)
    assert same == entry
    for cursor in ("x.y", "1" * 20 + ".y"):
        with pytest.raises(InvalidInput):
            await bulk.matching(ADMIN, JobQuery(), resume, cursor=cursor)


async def test_one_asks_by_the_name_of_what_was_changed(world: World) -> None:
    """Also when it has been deleted, and when the change was part of a bulk action."""
    log, ids = AuditLog(world.database), Ids(world.database)
    billing, crm = [await world.executor(name) for name in ("billing", "crm")]
    first = await world.jobs.create(ADMIN, billing, JOB | {"name": "a"})
    second = await world.jobs.create(ADMIN, crm, JOB | {"name": "a"})
    other = await world.jobs.create(ADMIN, crm, JOB | {"name": "b"})
    await JobBulk(world.database, ids, world.jobs).many(
        ADMIN, [first, other], JobChange(action=JobAction.PAUSE)
    )
    await world.jobs.delete(ADMIN, second)
    run_id = await world.jobs.run_now(ADMIN, first)

    async def found(asked: str, actor: Actor = ADMIN) -> list[tuple[str, int | None]]:
        items = (await log.page(actor, AuditQuery(object=asked))).items
        return sorted((item.action, item.object_id) for item in items)

    of_first = [("job.created", first), ("job.paused", first)]
    of_second = [("job.created", second), ("job.deleted", second)]
    assert await found("job:a") == sorted(of_first + of_second)
    assert await found('job:"billing / a"') == await found(f"job:#{first}") == of_first
    assert await found("job:a", actor_with(Role.ADMIN, crm)) == of_second
    assert await found(f"run:{run_id}") == [("run.requested", run_id)]
    assert await found("executor:crm") == [("executor.created", crm)]
    assert await found("job:none") == await found("node:none") == await found("user:none") == []
    (of_run,) = (await log.page(ADMIN, AuditQuery(object=f"run:{run_id}"))).items
    assert of_run.job_name == "a"
    for wrong in ("jobs:a", "a", "run:a", "job:", "run:"):
        with pytest.raises(InvalidInput) as refusal:
            await found(wrong)
        assert refusal.value.problems[0].code == "audit.object_invalid"
