"""What is planned of every kind of trigger, against a plain list of its instants."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from msgspec.structs import replace

from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec
from tickwheel_admin.domain.planning.plan import (
    MAX_COUNTED,
    next_after_end,
    next_since,
    plan,
    plan_fixed_delay,
)
from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.triggers.kinds.calendar_interval import (
    CalendarIntervalSpec,
    IntervalUnit,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.spec import MisfirePolicy, TriggerSpec
from tickwheel_admin.domain.triggers.trigger import Trigger, TriggerState

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
START = 1_774_600_000_000  # two days before clocks go forward in Berlin
HOLIDAYS = Calendar(name="holidays", version=1, spec=CalendarSpec(weekdays=(6, 7)))
BERLIN = "Europe/Berlin"
KINDS = {
    "cron": CronSpec(expression="*/20 * * * *", dialect="unix", timezone=BERLIN),
    "fixed rate": FixedRateSpec(every_ms=17 * MINUTE, anchor_at=START),
    "once": OnceSpec(at=START + DAY),
    "calendar interval": CalendarIntervalSpec(
        every=1,
        unit=IntervalUnit.DAY,
        start_date="2026-03-01",
        at_time="02:30:00",
        timezone=BERLIN,
    ),
    "daily window": DailyWindowSpec(
        every_ms=30 * MINUTE,
        from_time="01:00:00",
        to_time="05:00:00",
        timezone=BERLIN,
    ),
}
SPECS = KINDS | {
    "bounded": replace(KINDS["cron"], start_at=START + HOUR, end_at=START + 3 * DAY + HOUR),
    "with a calendar": replace(KINDS["cron"], calendar="holidays"),
}


def instants_of(schedule: Schedule, first: int, until: int) -> list[int]:
    """The stored instant and all of the schedule behind it, up to the first one past `until`."""
    found = [first]
    while found[-1] <= until and (after := schedule.next_after(found[-1])) is not None:
        found.append(after)
    return found


@pytest.mark.parametrize("name", SPECS)
def test_every_instant_is_planned_told_or_left_for_later(name: str) -> None:
    spec = SPECS[name]
    schedule = parse(spec, saved_at=START, calendar=HOLIDAYS if spec.calendar else None)
    first = schedule.next_after(START - 1)
    assert first is not None
    chance = random.Random(name)
    for _ in range(300):
        now = first + chance.choice((-3_000, 0, 4_000, HOUR, 20 * HOUR, 3 * DAY, 30 * DAY))
        until = now + 2_000
        if first > until:
            continue
        paused_at = chance.choice((None, None, now, first - 1, now - 10 * HOUR))
        left = chance.choice((None, 1, 2, 7))
        policy = chance.choice(list(MisfirePolicy))
        limit = chance.choice((1, 3, 1_000))
        found = plan(
            schedule,
            next_fire_at=first,
            now=now,
            until=until,
            misfire=policy,
            catch_up_limit=limit,
            paused_at=paused_at,
            left=left,
        )

        every = instants_of(schedule, first, until)
        missed_before = now - 5_000 if paused_at is None else min(now - 5_000, paused_at + 1)
        planned_to = until if paused_at is None else min(until, paused_at)
        missed = [at for at in every if at < missed_before]
        made_up = {"fire_once": 1, "skip": 0, "fire_all": limit}[policy]
        made_up = made_up if left is None else min(made_up, left)
        caught_up = missed[max(len(missed) - made_up, 0) :]
        told = missed[: len(missed) - len(caught_up)]
        on_time = [at for at in every if missed_before <= at <= planned_to]
        on_time = on_time[: None if left is None else left - len(caught_up)]

        assert list(found.caught_up) == caught_up
        assert list(found.fires) == on_time
        written = [*caught_up, *on_time]
        assert found.previous_at == (schedule.last_before(written[0]) if written else None)
        if told:
            assert found.missed is not None
            assert (found.missed.first_at, found.missed.last_at) == (told[0], told[-1])
            assert found.missed.count == min(len(told), MAX_COUNTED + 1)
        else:
            assert found.missed is None
        over = [*missed, *on_time]
        if left is not None and len(caught_up) + len(on_time) == left:
            assert found.next_fire_at is None
            continue
        after = schedule.next_after(over[-1]) if over else first
        if after is not None and paused_at is not None and paused_at < after <= now:
            after = schedule.next_after(now)
        assert found.next_fire_at == after


# --- fixed delays ----------------------------------------------------------------------------

DELAY = FixedDelaySpec(every_ms=HOUR, timezone="UTC")
FRIDAY = 1_774_569_600_000  # 2026-03-27, midnight UTC


def test_a_fixed_delay_comes_with_its_last_run_to_an_end() -> None:
    twice = replace(DELAY, repeat_count=2)
    first = plan_fixed_delay(twice, next_fire_at=START, now=START, paused_at=None, fires=0)
    last = plan_fixed_delay(twice, next_fire_at=START, now=START, paused_at=None, fires=1)
    assert (first.fires, first.waits, first.next_fire_at) == ((START,), True, None)
    assert (last.fires, last.waits, last.next_fire_at) == ((START,), False, None)


def test_a_fixed_delay_waits_for_what_its_calendar_and_its_bounds_leave() -> None:
    def after(spec: TriggerSpec, ended_at: int, fires: int = 1) -> int | None:
        calendar = HOLIDAYS if spec.calendar else None
        return next_after_end(spec, ended_at=ended_at, fires=fires, calendar=calendar)

    working = replace(DELAY, calendar="holidays")
    assert after(working, FRIDAY) == FRIDAY + HOUR
    assert after(working, FRIDAY + 23 * HOUR) == FRIDAY + 3 * DAY  # Saturday becomes Monday
    assert after(replace(DELAY, start_at=FRIDAY + DAY), FRIDAY) == FRIDAY + DAY
    assert after(replace(DELAY, end_at=FRIDAY + HOUR), FRIDAY) == FRIDAY + HOUR
    assert after(replace(DELAY, end_at=FRIDAY + HOUR), FRIDAY + 1) is None
    assert after(replace(working, end_at=FRIDAY + 2 * DAY), FRIDAY + 23 * HOUR) is None
    assert after(replace(DELAY, repeat_count=3), FRIDAY, fires=3) is None
    assert after(replace(DELAY, repeat_count=3), FRIDAY, fires=2) == FRIDAY + HOUR


def test_a_pause_postpones_a_fixed_delay_to_what_its_calendar_leaves() -> None:
    working = replace(DELAY, calendar="holidays")
    held = plan_fixed_delay(
        working,
        next_fire_at=FRIDAY,
        now=FRIDAY + 23 * HOUR,
        paused_at=FRIDAY - 1,
        calendar=HOLIDAYS,
    )
    assert (held.fires, held.caught_up, held.next_fire_at) == ((), (), FRIDAY + 3 * DAY)


# --- changes of a calendar -------------------------------------------------------------------


def trigger_of(spec: TriggerSpec, **changes: object) -> Trigger:
    values = {
        "id": 1,
        "job_id": 1,
        "executor_id": 1,
        "bucket": 1,
        "spec": spec,
        "paused": False,
        "state": TriggerState.ACTIVE,
        "reason": None,
        "next_fire_at": None,
        "last_fire_at": None,
        "version": 1,
    }
    return Trigger(**(values | changes))  # type: ignore[arg-type]


HOURLY = FixedRateSpec(every_ms=HOUR, anchor_at=FRIDAY, calendar="x")


@pytest.mark.parametrize(
    ("next_at", "last_at", "since", "expected"),
    [
        # Overdue when the calendar changed: it stays, although the new one takes it away.
        (FRIDAY + DAY, FRIDAY + 23 * HOUR, FRIDAY + DAY + MINUTE, FRIDAY + DAY),
        # Still to come when it changed: gone, and Monday is next.
        (FRIDAY + DAY, FRIDAY + 23 * HOUR, FRIDAY + 23 * HOUR + 1, FRIDAY + 3 * DAY),
        # The old calendar left a week out that the new one does not.
        (FRIDAY + 9 * DAY, FRIDAY, FRIDAY + MINUTE, FRIDAY + HOUR),
        # What was planned ahead of the change does not fire again.
        (FRIDAY + 3 * HOUR, FRIDAY + 2 * HOUR, FRIDAY + 2 * HOUR - 1_000, FRIDAY + 3 * HOUR),
        # It had no further fire, and has one now.
        (None, FRIDAY, FRIDAY + 5 * DAY, FRIDAY + 5 * DAY),
    ],
)
def test_a_new_calendar_counts_from_its_change_on(
    next_at: int | None, last_at: int, since: int, expected: int
) -> None:
    trigger = trigger_of(HOURLY, next_fire_at=next_at, last_fire_at=last_at)
    schedule = parse(HOURLY, saved_at=FRIDAY, calendar=HOLIDAYS)
    assert next_since(schedule, trigger, since=since, calendar=HOLIDAYS) == expected


def test_a_count_that_is_used_up_stays_so_whatever_the_calendar() -> None:
    spec = replace(HOURLY, repeat_count=2)
    trigger = trigger_of(spec, last_fire_at=FRIDAY, fires=2)
    schedule = parse(spec, saved_at=FRIDAY, calendar=HOLIDAYS)
    assert next_since(schedule, trigger, since=FRIDAY, calendar=HOLIDAYS) is None


def test_an_armed_fixed_delay_moves_out_of_days_that_are_taken_away() -> None:
    spec = replace(DELAY, calendar="x")
    schedule = parse(spec, saved_at=FRIDAY, calendar=HOLIDAYS)
    for at, expected in ((FRIDAY + DAY, FRIDAY + 3 * DAY), (FRIDAY + HOUR, FRIDAY + HOUR)):
        trigger = trigger_of(spec, next_fire_at=at)
        assert next_since(schedule, trigger, since=FRIDAY, calendar=HOLIDAYS) == expected
    waiting = trigger_of(spec)
    assert next_since(schedule, waiting, since=FRIDAY, calendar=HOLIDAYS) is None


def test_instants_are_listed_as_the_oracle_needs_them() -> None:
    schedule = parse(KINDS["fixed rate"], saved_at=START)
    assert list(islice(instants_of(schedule, START, START + HOUR), 9)) == [
        START + step * 17 * MINUTE for step in range(5)
    ]
