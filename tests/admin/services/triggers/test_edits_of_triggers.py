"""Edits and pauses of triggers of every kind: each fire belongs to one version of its job (G11)."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.services import ADMIN, JOB, World
from tickwheel_admin.domain.input.trigger import parse_trigger
from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.store.calendars.calendars import read_calendars
from tickwheel_admin.store.database import tables

pytestmark = pytest.mark.turned_clock

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
SAVED = NOW - 30 * DAY
BERLIN = {"timezone": "Europe/Berlin"}
KINDS: dict[str, dict[str, Any]] = {
    "cron": {"kind": "cron", "expression": "0 */20 * * * ?", "dialect": "quartz"} | BERLIN,
    "fixed rate": {"kind": "fixed_rate", "every_seconds": 1_200},
    "calendar interval": {
        "kind": "calendar_interval",
        "every": 2,
        "unit": "day",
        "start_date": "2026-01-01",
        "at_time": "07:30",
    }
    | BERLIN,
    "daily window": {
        "kind": "daily_window",
        "every_seconds": 900,
        "from_time": "08:00",
        "to_time": "17:00",
        "weekdays": ["mon", "wed", "sat"],
    }
    | BERLIN,
    "window": {"kind": "window", "from_time": "22:00", "to_time": "02:30"} | BERLIN,
    "bounded": {"kind": "fixed_rate", "every_seconds": 3_600, "end_at": NOW + 90 * MINUTE},
    "with a calendar": {"kind": "cron", "expression": "0 * * * *", "calendar": "nights"},
}


@pytest.fixture
def clock() -> Clock:
    return Clock(now=SAVED)


async def saved(world: World, kind: dict[str, Any], **changes: Any) -> tuple[int, Schedule]:
    """A job with one trigger of a kind, and its schedule."""
    calendar = None
    windows = [{"from_time": "00:00", "to_time": "06:00"}]
    await world.calendars.create(ADMIN, {"name": "nights", "windows": windows})
    executor_id = await world.executor()
    raw = JOB | {"triggers": [kind | changes]}
    job_id = await world.jobs.create(ADMIN, executor_id, raw)
    spec = parse_trigger(kind | changes)
    if spec.calendar is not None:
        calendar = world.database.read_sync(read_calendars, [spec.calendar])[spec.calendar]
    return job_id, parse(spec, saved_at=SAVED, calendar=calendar)


def some_overdue(schedule: Schedule, clock: Clock) -> list[int]:
    """Its instants in a stretch that ends now, with two of them before it."""
    clock.now = NOW
    last = schedule.last_before(NOW + 1)
    assert last is not None
    before = schedule.last_before(last)
    assert before is not None
    return [before, last]


@pytest.mark.parametrize("name", KINDS)
async def test_an_edit_writes_what_was_due_and_takes_back_what_is_ahead(
    world: World, clock: Clock, name: str
) -> None:
    patient = {"misfire": "fire_all", "misfire_threshold_seconds": 86_400}
    job_id, schedule = await saved(world, KINDS[name], **patient)
    overdue = some_overdue(schedule, clock)
    (trigger,) = world.triggers_of_job(job_id)
    ahead = schedule.next_after(NOW)
    assert ahead is not None
    world.run(
        executor_id=trigger.executor_id,
        job_id=job_id,
        trigger_id=trigger.id,
        scheduled_at=ahead,
        state="queued",
        attempt=0,
    )
    world.change(sa.update(tables.trigger).values(next_fire_at=overdue[0], fires=1))

    raw = JOB | {"owner": "x", "triggers": [KINDS[name] | patient]}
    await world.jobs.update(ADMIN, job_id, raw, revision=1)

    runs = world.runs_of_job(job_id)
    assert [(row.scheduled_at, row.job_revision) for row in runs] == [(at, 1) for at in overdue]
    (trigger,) = world.triggers_of_job(job_id)
    assert (trigger.next_fire_at, trigger.fires) == (ahead, 2)


@pytest.mark.parametrize("name", KINDS)
async def test_resuming_goes_on_from_now_with_every_kind(
    world: World, clock: Clock, name: str
) -> None:
    job_id, schedule = await saved(world, KINDS[name])
    (trigger,) = world.triggers_of_job(job_id)
    clock.now = SAVED + 1
    for pause, resume in (
        (world.jobs.pause(ADMIN, job_id), world.jobs.resume),
        (world.jobs.pause_trigger(ADMIN, job_id, trigger.id), None),
    ):
        await pause
        (paused,) = world.triggers_of_job(job_id)
        assert paused.next_fire_at is None
        clock.now = NOW
        if resume is not None:
            await resume(ADMIN, job_id)
        else:
            await world.jobs.resume_trigger(ADMIN, job_id, trigger.id)
        (resumed,) = world.triggers_of_job(job_id)
        assert resumed.next_fire_at == schedule.next_after(NOW)
        assert resumed.fires == 0
    # What the pause held back is told by nothing.
    assert world.runs_of_job(job_id) == []
