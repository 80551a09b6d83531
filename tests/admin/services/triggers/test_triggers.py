"""What triggers will do, told before and after they are saved; how full the next hours are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.services import ADMIN, JOB, World, actor_with
from tickwheel_admin.domain.errors import InvalidInput, NotFound
from tickwheel_admin.domain.fields import MAX_INSTANT
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.triggers import upcoming as coming
from tickwheel_admin.services.triggers import upcoming_count as fire_count
from tickwheel_admin.services.triggers.service import Heat
from tickwheel_admin.store.database import tables

pytestmark = pytest.mark.turned_clock

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MIDNIGHT = NOW // DAY * DAY  # UTC


@pytest.fixture
def clock() -> Clock:
    return Clock(now=MIDNIGHT)


async def add(world: World, executor_id: int, name: str, *triggers: dict[str, Any]) -> int:
    return await world.jobs.create(
        ADMIN, executor_id, JOB | {"name": name, "triggers": list(triggers)}
    )


def rate(seconds: float, **changes: Any) -> dict[str, Any]:
    return {"kind": "fixed_rate", "every_seconds": seconds, "anchor_at": 0} | changes


def codes(error: InvalidInput) -> list[tuple[str, str]]:
    return [(problem.field, problem.code) for problem in error.problems]


# --- previews and explanations ---------------------------------------------------------------


async def test_a_preview_tells_what_a_trigger_would_do(world: World) -> None:
    await world.calendars.create(ADMIN, {"name": "rest", "weekdays": ["sat", "sun"]})
    trigger = {
        "kind": "cron",
        "expression": "0 0 9 ? * *",
        "dialect": "quartz",
        "timezone": "Asia/Shanghai",
        "calendar": "rest",
        "jitter_seconds": 60,
    }
    found = await world.schedules.preview(trigger, n=6, after=MIDNIGHT)
    assert [fire.offset_minutes for fire in found.fires] == [480] * 6
    gaps = [b.at - a.at for a, b in zip(found.fires, found.fires[1:], strict=False)]
    assert sorted(gaps) == [DAY] * 4 + [3 * DAY]
    assert [day.calendar for day in found.removed] == ["rest", "rest"]
    assert "09:00" in found.description
    assert any("rest" in detail for detail in found.details)
    assert found.disagreement is None
    assert len((await world.schedules.preview(rate(1), n=1_000)).fires) == 100
    at_the_end = await world.schedules.preview(rate(1), after=MAX_INSTANT - 1_500)
    assert [fire.at for fire in at_the_end.fires] == [MAX_INSTANT // 1_000 * 1_000]


async def test_words_come_in_the_language_of_the_caller(world: World) -> None:
    marked = world.schedules.describe(rate(600), translate=lambda text: f"<{text}>")
    assert (marked.text, len(marked.details)) == ("<Every 10 minutes>", 1)
    assert marked.details[0].startswith("<")


async def test_what_cannot_be_is_refused(world: World) -> None:
    with pytest.raises(InvalidInput) as unknown:
        await world.schedules.preview(rate(1, calendar="nowhere"))
    assert codes(unknown.value) == [("calendar", "calendar.unknown")]
    with pytest.raises(InvalidInput) as no_date:
        await world.schedules.explain(rate(1), date="tomorrow")
    assert codes(no_date.value)[0][0] == "date"


async def test_a_saved_trigger_is_explained_with_its_pauses_and_its_count(
    world: World, executor_id: int
) -> None:
    job_id = await add(world, executor_id, "a", rate(86_400, repeat_count=3))
    (trigger,) = world.triggers_of_job(job_id)

    async def explained(day: int) -> tuple[int, list[str]]:
        date = str(_date(MIDNIGHT + day * DAY))
        found = await world.schedules.explain_trigger(ADMIN, trigger.id, date=date)
        return len(found.fires), [reason.code for reason in found.reasons]

    assert await explained(1) == (1, [])
    assert await explained(3) == (1, [])
    assert await explained(4) == (0, ["repeat_count"])
    for pause, code in (
        (world.jobs.pause_trigger(ADMIN, job_id, trigger.id), ["trigger_paused"]),
        (world.jobs.pause(ADMIN, job_id), ["trigger_paused", "job_paused"]),
        (
            world.executors.pause(ADMIN, executor_id),
            ["trigger_paused", "job_paused", "executor_paused"],
        ),
    ):
        await pause
        assert await explained(2) == (0, code)
    world.change(sa.update(tables.trigger).values(fires=3, paused=False))
    assert (await explained(2))[1][0] == "repeat_count"
    with pytest.raises(NotFound):
        await world.schedules.explain_trigger(
            actor_with(Role.ADMIN, executor_id + 1), trigger.id, date="2027-01-01"
        )


def _date(at: int) -> Any:
    return datetime.fromtimestamp(at / 1000, UTC).date()


# --- how full the next hours are -------------------------------------------------------------


async def heat(world: World, **wanted: Any) -> Heat:
    return await world.schedules.upcoming(ADMIN, **wanted)


async def test_fires_are_counted_by_cell_executor_and_job(
    world: World, executor_id: int, clock: Clock
) -> None:
    other_id = await world.executor("other")
    quarterly = await add(world, executor_id, "quarterly", rate(900))
    hourly = await add(world, executor_id, "hourly", rate(3_600), rate(3_600, anchor_at=1_000))
    await add(world, other_id, "once", {"kind": "once", "at": MIDNIGHT + 90 * MINUTE})
    clock.advance(1)

    found = await heat(world)

    assert (found.start, found.end, found.cell_minutes) == (MIDNIGHT, MIDNIGHT + DAY, 15)
    # At midnight itself they were saved, so what fires then is over; one fires a second later.
    assert found.cells[:8] == (1, 1, 1, 1, 3, 1, 2, 1)
    assert found.total == sum(found.cells) == 95 + 23 + 24 + 1
    assert [(row.executor_name, row.count) for row in found.executors] == [
        ("billing", 142),
        ("other", 1),
    ]
    assert [(row.job_name, row.count) for row in found.jobs] == [
        ("quarterly", 95),
        ("hourly", 47),
        ("once", 1),
    ]
    busiest = found.busiest[0]
    assert (busiest.at, busiest.count) == (MIDNIGHT + HOUR, 3)
    assert busiest.jobs == ((hourly, "hourly", 2), (quarterly, "quarterly", 1))
    assert (found.approximate, found.truncated, found.all_paused) == (False, False, False)


async def test_jobs_that_fire_all_the_time_are_left_out_of_the_count_when_asked_to(
    world: World, executor_id: int
) -> None:
    often = {"kind": "cron", "expression": "* * * * *", "dialect": "unix"}
    await add(world, executor_id, "ten seconds", rate(10))
    await add(world, executor_id, "minute", often)
    await add(world, executor_id, "two minutes", rate(120))
    await add(world, executor_id, "hourly", rate(3_600))
    assert len((await heat(world, days=7)).jobs) == 4
    found = await heat(world, days=7, frequent=False)
    assert [row.job_name for row in found.jobs] == ["two minutes", "hourly"]
    assert found.left_out == 2
    assert max(found.cells) == 31


async def test_a_week_has_hours_and_begins_where_its_reader_is(
    world: World, executor_id: int
) -> None:
    await add(world, executor_id, "a", rate(3_600))
    kathmandu = await heat(world, days=7, zone="Asia/Kathmandu")  # 5:45 ahead of UTC
    assert (kathmandu.cell_minutes, len(kathmandu.cells)) == (60, 168)
    assert kathmandu.start == MIDNIGHT - 45 * MINUTE
    # The night on which clocks go forward in Berlin: a day of 23 hours, 2027-03-28.
    forward = 1_806_188_400_000
    berlin = await heat(world, start=forward, zone="Europe/Berlin")
    assert (len(berlin.cells), berlin.total) == (92, 23)
    assert berlin.end - berlin.start == 23 * HOUR


async def test_dense_triggers_are_counted_without_walking_through_them(
    world: World, executor_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire_count, "MAX_FIRES", 10_000)
    second = {"kind": "cron", "expression": "* * 8-9 * * ?", "dialect": "quartz"}
    await add(world, executor_id, "every second", rate(1))
    await add(world, executor_id, "two hours", second)
    await add(world, executor_id, "a few", rate(0.1, repeat_count=500))

    found = await heat(world)

    by_job = {row.job_name: row for row in found.jobs}
    assert by_job["every second"].count == 86_399
    assert by_job["every second"].cells[5] == 900
    assert by_job["a few"].count == 500
    assert by_job["a few"].cells[0] == 500
    assert abs(by_job["two hours"].count - 7_200) <= 60
    assert [cell > 0 for cell in by_job["two hours"].cells] == [
        32 <= index < 40 for index in range(96)
    ]
    assert (found.approximate, found.truncated) == (True, False)


async def test_too_many_fires_end_the_count(
    world: World, executor_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire_count, "MAX_FIRES", 300)
    monkeypatch.setattr(coming, "CHUNK", 2)
    for number in range(7):
        await add(world, executor_id, f"job {number}", rate(900))
    found = await heat(world)
    assert found.truncated
    assert 290 <= found.total < 7 * 95


async def test_triggers_are_read_in_chunks(
    world: World, executor_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coming, "CHUNK", 2)
    for number in range(5):
        await add(world, executor_id, f"job {number}", rate(900))
    found = await heat(world)
    assert (found.total, found.truncated) == (5 * 95, False)


async def test_what_is_paused_or_out_of_sight_does_not_count(
    world: World, executor_id: int, clock: Clock
) -> None:
    other_id = await world.executor("other")
    mine = await add(world, executor_id, "mine", rate(3_600))
    await add(world, other_id, "theirs", rate(3_600))

    async def counted(actor: Any = ADMIN, **wanted: Any) -> Heat:
        clock.advance(61)  # a count is kept for a minute
        return await world.schedules.upcoming(actor, start=MIDNIGHT, **wanted)

    assert (await counted()).total == 46
    assert (await counted(executor_id=other_id)).total == 23
    seen = await counted(actor_with(Role.VIEWER, executor_id))
    assert [row.job_name for row in seen.jobs] == ["mine"]
    await world.executors.pause(ADMIN, other_id)
    assert [row.job_id for row in (await counted()).jobs] == [mine]
    await world.jobs.pause(ADMIN, mine)
    assert (await counted()).total == 0
    await world.system.pause_all(ADMIN)
    everything = await counted()
    assert (everything.all_paused, everything.total) == (True, 0)


async def test_a_count_is_kept_for_a_minute(world: World, executor_id: int, clock: Clock) -> None:
    await add(world, executor_id, "a", rate(3_600))
    first = await heat(world)
    await add(world, executor_id, "b", rate(3_600))
    assert await heat(world) is first
    clock.advance(60)
    assert (await heat(world)).total == 2 * first.total


async def test_calendars_and_delays_count_as_they_will_fire(world: World, executor_id: int) -> None:
    await world.calendars.create(
        ADMIN, {"name": "rest", "windows": [{"from_time": "00:00", "to_time": "20:00"}]}
    )
    await add(world, executor_id, "evenings", rate(900, calendar="rest"))
    await add(world, executor_id, "delay", {"kind": "fixed_delay", "every_seconds": 600})
    found = await heat(world)
    assert {row.job_name: row.count for row in found.jobs} == {"evenings": 16, "delay": 1}


@pytest.mark.parametrize(
    "wanted", [{"days": 2}, {"zone": "Mars/Olympus"}, {"start": -1}, {"start": 9**16}]
)
async def test_what_cannot_be_counted_is_refused(world: World, wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await heat(world, **wanted)
