"""Calendars as people manage them, and what jobs may ask of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tests.support.lost_answers import LosingAnswers
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import ALL_EXECUTORS, Role
from tickwheel_admin.services.calendars.service import Calendars
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.ids import Ids

HOLIDAYS: dict[str, Any] = {"name": "holidays", "dates": ["2026-10-01"]}
NEVER: dict[str, Any] = {"name": "never", "sense": "include", "dates": ["1999-01-01"]}


def hourly(**changes: Any) -> dict[str, Any]:
    return JOB | {"triggers": [{"kind": "fixed_rate", "every_seconds": 3_600} | changes]}


def codes(error: InvalidInput) -> list[tuple[str, str]]:
    return [(problem.field, problem.code) for problem in error.problems]


# --- managing --------------------------------------------------------------------------------


async def test_a_calendar_is_added_changed_and_deleted(world: World) -> None:
    calendar_id = await world.calendars.create(ADMIN, HOLIDAYS | {"description": "  Ours. "})
    detail = await world.calendars.get(ADMIN, calendar_id)
    assert (detail.item.name, detail.item.description, detail.item.version) == (
        "holidays",
        "Ours.",
        1,
    )
    assert detail.users == []
    version = await world.calendars.update(
        ADMIN, calendar_id, HOLIDAYS | {"weekdays": ["sun"]}, version=1
    )
    assert version == 2
    same = await world.calendars.update(
        ADMIN, calendar_id, HOLIDAYS | {"weekdays": ["sun"]}, version=2
    )
    assert same == 2  # nothing changed, so nothing is computed anew
    await world.calendars.delete(ADMIN, calendar_id)
    with pytest.raises(NotFound):
        await world.calendars.get(ADMIN, calendar_id)
    assert world.audit() == [
        ("calendar.created", calendar_id),
        ("calendar.updated", calendar_id),
        ("calendar.deleted", calendar_id),
    ]
    detail_of_update = world.rows(sa.select(tables.audit.c.detail))[1].detail
    assert json.loads(detail_of_update)["changed"] == ["description", "weekdays"]


async def test_lists_come_in_pages(world: World) -> None:
    for name in ("c", "a", "b"):
        await world.calendars.create(ADMIN, HOLIDAYS | {"name": name})
    nobody = actor_with(Role.VIEWER)
    page = await world.calendars.page(nobody, limit=2)
    assert [item.name for item in page.items] == ["a", "b"]
    rest = await world.calendars.page(nobody, limit=2, cursor=page.next)
    assert ([item.name for item in rest.items], rest.next) == (["c"], None)
    assert await world.calendars.names(nobody) == ["a", "b", "c"]
    assert [item.name for item in (await world.calendars.page(nobody, text="B")).items] == ["b"]
    for bad in ({"cursor": "x"}, {"text": "\x00"}, {"limit": 0}):
        with pytest.raises(InvalidInput):
            await world.calendars.page(nobody, **bad)


async def test_edits_of_an_older_version_and_other_names_are_refused(world: World) -> None:
    calendar_id = await world.calendars.create(ADMIN, HOLIDAYS)
    await world.calendars.update(ADMIN, calendar_id, HOLIDAYS | {"month_days": [1]}, version=1)
    with pytest.raises(Conflict) as caught:
        await world.calendars.update(ADMIN, calendar_id, HOLIDAYS, version=1)
    assert caught.value.code == "calendar.changed"
    with pytest.raises(InvalidInput) as refused:
        await world.calendars.update(ADMIN, calendar_id, HOLIDAYS | {"name": "x"}, version=2)
    assert codes(refused.value) == [("name", "calendar.renamed")]
    with pytest.raises(Conflict) as taken:
        await world.calendars.create(ADMIN, HOLIDAYS)
    assert taken.value.code == "calendar.name_taken"


async def test_bases_exist_are_no_circles_and_no_endless_chains(world: World) -> None:
    async def based(name: str, base: str | None) -> int:
        return await world.calendars.create(ADMIN, HOLIDAYS | {"name": name, "base": base})

    with pytest.raises(InvalidInput) as unknown:
        await based("x", "nowhere")
    assert codes(unknown.value) == [("base", "calendar.unknown")]
    first = await based("c1", None)
    for number in range(2, 11):
        await based(f"c{number}", f"c{number - 1}")
    with pytest.raises(InvalidInput) as too_long:
        await based("c11", "c10")
    assert codes(too_long.value) == [("base", "calendar.chain_too_long")]
    with pytest.raises(InvalidInput) as circle:
        await world.calendars.update(
            ADMIN, first, HOLIDAYS | {"name": "c1", "base": "c3"}, version=1
        )
    assert codes(circle.value) == [("base", "calendar.circle")]
    assert "c1 → c3 → c2 → c1" in str(circle.value)
    # At the other end it is as long, seen from below.
    await based("c0", None)
    with pytest.raises(InvalidInput) as below:
        await world.calendars.update(
            ADMIN, first, HOLIDAYS | {"name": "c1", "base": "c0"}, version=1
        )
    assert codes(below.value) == [("base", "calendar.chain_too_long")]
    with pytest.raises(Conflict) as in_use:
        await world.calendars.delete(ADMIN, first)
    assert in_use.value.code == "calendar.is_base"
    assert "c2" in str(in_use.value)


async def test_who_may_change_calendars(world: World, executor_id: int) -> None:
    calendar_id = await world.calendars.create(ADMIN, HOLIDAYS)
    for actor in (
        actor_with(Role.OPERATOR, ALL_EXECUTORS),
        actor_with(Role.ADMIN, executor_id),
    ):
        await world.calendars.get(actor, calendar_id)
        with pytest.raises(NotAllowed):
            await world.calendars.create(actor, HOLIDAYS | {"name": "b"})
        with pytest.raises(NotAllowed):
            await world.calendars.update(actor, calendar_id, HOLIDAYS, version=1)
        with pytest.raises(NotAllowed):
            await world.calendars.delete(actor, calendar_id)
        with pytest.raises(NotFound):
            await world.calendars.delete(actor, 999)
    await world.calendars.delete(actor_with(Role.DEVELOPER, ALL_EXECUTORS), calendar_id)


async def test_edits_whose_answers_are_lost_are_made_once(world: World) -> None:
    losing = LosingAnswers(world.database)
    calendars = Calendars(losing, Ids(world.database), world.events)
    calendar_id = await calendars.create(ADMIN, HOLIDAYS)
    edit = HOLIDAYS | {"yearly": ["12-25"]}
    assert await calendars.update(ADMIN, calendar_id, edit, version=1) == 2
    await calendars.delete(ADMIN, calendar_id)
    assert losing.lost == 3
    assert [action for action, _ in world.audit()] == [
        "calendar.created",
        "calendar.updated",
        "calendar.deleted",
    ]


# --- jobs that follow them -------------------------------------------------------------------


async def test_a_job_names_calendars_that_are_there(world: World, executor_id: int) -> None:
    world.node(executor_id)
    with pytest.raises(InvalidInput) as refused:
        await world.jobs.create(ADMIN, executor_id, hourly(calendar="holidays"))
    assert codes(refused.value) == [("triggers[0].calendar", "calendar.unknown")]
    await world.calendars.create(ADMIN, HOLIDAYS)
    job_id = await world.jobs.create(ADMIN, executor_id, hourly(calendar="holidays"))
    (trigger,) = world.triggers_of_job(job_id)
    assert (trigger.calendar, trigger.calendar_version) == ("holidays", 1)


async def test_a_job_whose_calendar_leaves_nothing_is_refused(
    world: World, executor_id: int
) -> None:
    calendar_id = await world.calendars.create(ADMIN, NEVER)
    with pytest.raises(InvalidInput) as refused:
        await world.jobs.create(ADMIN, executor_id, hourly(calendar="never"))
    assert codes(refused.value) == [("triggers[0].calendar", "trigger.never_fires")]
    assert "“never” excludes every one" in str(refused.value)

    # It may come to that later, when the calendar changes; saving the job then says so.
    some = NEVER | {"weekdays": ["mon"]}
    await world.calendars.update(ADMIN, calendar_id, some, version=1)
    job_id = await world.jobs.create(ADMIN, executor_id, hourly(calendar="never"))
    await world.calendars.update(ADMIN, calendar_id, NEVER, version=2)
    with pytest.raises(InvalidInput) as later:
        await world.jobs.update(
            ADMIN, job_id, hourly(calendar="never") | {"owner": "x"}, revision=1
        )
    assert codes(later.value) == [("triggers[0].calendar", "trigger.never_fires")]


async def test_a_calendar_in_use_is_not_deleted(world: World, executor_id: int) -> None:
    calendar_id = await world.calendars.create(ADMIN, HOLIDAYS)
    job_id = await world.jobs.create(ADMIN, executor_id, hourly(calendar="holidays"))
    with pytest.raises(Conflict) as refused:
        await world.calendars.delete(ADMIN, calendar_id)
    assert refused.value.code == "calendar.in_use"
    assert "billing/invoices" in str(refused.value)
    detail = await world.calendars.get(actor_with(Role.VIEWER, executor_id + 1), calendar_id)
    assert (detail.item.triggers, detail.users) == (1, [])
    await world.jobs.update(ADMIN, job_id, hourly(), revision=1)
    await world.calendars.delete(ADMIN, calendar_id)


async def test_an_edit_of_a_job_follows_the_calendar_as_it_is_now(
    world: World, executor_id: int
) -> None:
    """Also when the trigger has not been computed anew yet."""
    calendar_id = await world.calendars.create(ADMIN, HOLIDAYS)
    job_id = await world.jobs.create(ADMIN, executor_id, hourly(calendar="holidays"))
    weekend = HOLIDAYS | {"sense": "include", "dates": ["2150-10-01"]}
    await world.calendars.update(ADMIN, calendar_id, weekend, version=1)
    for edit in (
        world.jobs.update(ADMIN, job_id, hourly(calendar="holidays") | {"owner": "x"}, revision=1),
        world.jobs.pause(ADMIN, job_id),
        world.jobs.resume(ADMIN, job_id),
    ):
        await edit
        (trigger,) = world.triggers_of_job(job_id)
        assert trigger.calendar_version == 2
    assert trigger.next_fire_at > 5_700_000_000_000  # in 2150


async def test_a_trigger_whose_calendar_is_gone_can_be_removed(
    world: World, executor_id: int
) -> None:
    await world.calendars.create(ADMIN, HOLIDAYS)
    job_id = await world.jobs.create(ADMIN, executor_id, hourly(calendar="holidays"))
    world.change(sa.update(tables.calendar).values(deleted_at=5))  # by hand
    with pytest.raises(InvalidInput):
        await world.jobs.update(
            ADMIN, job_id, hourly(calendar="holidays") | {"owner": "x"}, revision=1
        )
    await world.jobs.update(ADMIN, job_id, hourly(), revision=1)
    (trigger,) = world.triggers_of_job(job_id)
    assert (trigger.calendar, trigger.state) == (None, "active")


async def test_lists_of_jobs_show_the_fires_that_calendars_leave(
    world: World, executor_id: int
) -> None:
    await world.calendars.create(
        ADMIN, HOLIDAYS | {"sense": "include", "dates": ["2150-10-01", "2150-10-03"]}
    )
    job_id = await world.jobs.create(
        ADMIN,
        executor_id,
        JOB
        | {
            "triggers": [
                {"kind": "cron", "expression": "0 9 * * *", "calendar": "holidays"},
                {"kind": "cron", "expression": "0 8 * * *", "calendar": "holidays"}
                | {"repeat_count": 1},
            ]
        },
    )
    detail = await world.jobs.get(ADMIN, job_id)
    first = 5_703_868_800_000 + 8 * 3_600_000  # 2150-10-01T08:00:00Z
    hour, day = 3_600_000, 86_400_000
    assert detail.next_fires == [first, first + hour, first + 2 * day + hour]
    assert detail.item.next_fire_at == first


# --- counts ----------------------------------------------------------------------------------


async def test_what_a_pause_takes_back_is_not_counted(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, hourly(repeat_count=3))
    (trigger,) = world.triggers_of_job(job_id)
    mine = {"executor_id": executor_id, "job_id": job_id, "trigger_id": trigger.id}
    world.run(**mine, scheduled_at=world.now - 7_200_000)
    world.run(**mine, scheduled_at=world.now - 3_600_000)
    ahead = {"scheduled_at": world.now + 60_000, "state": "queued", "attempt": 0}
    world.run(**mine, **ahead)
    # Its third and last run is planned ahead, so it is complete.
    world.change(sa.update(tables.trigger).values(state="complete", next_fire_at=None, fires=3))

    await world.jobs.pause_trigger(ADMIN, job_id, trigger.id)
    (paused,) = world.triggers_of_job(job_id)
    assert (paused.fires, paused.state, paused.next_fire_at) == (2, "active", None)

    await world.jobs.resume_trigger(ADMIN, job_id, trigger.id)
    (resumed,) = world.triggers_of_job(job_id)
    assert (resumed.fires, resumed.state) == (2, "active")
    assert resumed.next_fire_at > world.now


async def test_a_count_that_is_used_up_stays_so(world: World, executor_id: int) -> None:
    job_id = await world.jobs.create(ADMIN, executor_id, hourly(repeat_count=2))
    world.change(sa.update(tables.trigger).values(state="complete", next_fire_at=None, fires=2))
    await world.jobs.pause(ADMIN, job_id)
    await world.jobs.resume(ADMIN, job_id)
    (trigger,) = world.triggers_of_job(job_id)
    assert (trigger.fires, trigger.state, trigger.next_fire_at) == (2, "complete", None)


async def test_an_edit_plans_no_more_than_what_is_left(world: World, executor_id: int) -> None:
    minutely = hourly(every_seconds=60, anchor_at=0, repeat_count=5, misfire="fire_all")
    job_id = await world.jobs.create(ADMIN, executor_id, minutely)
    overdue = world.now // 60_000 * 60_000 - 600_000
    world.change(sa.update(tables.trigger).values(next_fire_at=overdue, fires=3))
    await world.jobs.update(ADMIN, job_id, minutely | {"owner": "x"}, revision=1)
    (trigger,) = world.triggers_of_job(job_id)
    assert (trigger.fires, trigger.state) == (5, "complete")
    states = [row.state for row in world.runs_of_job(job_id)]
    assert sorted(states) == ["queued", "queued", "skipped"]


async def test_a_fixed_delay_without_a_first_delay_fires_at_once(
    world: World, executor_id: int
) -> None:
    before = world.now
    delay = {"kind": "fixed_delay", "every_seconds": 60, "initial_delay_seconds": 0}
    job_id = await world.jobs.create(ADMIN, executor_id, JOB | {"triggers": [delay]})
    (trigger,) = world.triggers_of_job(job_id)
    assert before <= trigger.next_fire_at <= world.now


# --- parameters ------------------------------------------------------------------------------


async def test_parameters_fit_together(world: World, executor_id: int) -> None:
    half = {"text": "x" * 40_000}
    other = {"more": "y" * 40_000}
    with pytest.raises(InvalidInput) as refused:
        await world.jobs.create(ADMIN, executor_id, hourly(parameters=other) | {"parameters": half})
    assert codes(refused.value) == [("triggers[0].parameters", "json.too_large")]
