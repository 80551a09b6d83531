"""Every kind of trigger but cron: by definition around transitions, bounds, what is refused."""

from __future__ import annotations

import random
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from tests.admin.domain.schedule.clocks import (
    TRANSITIONS,
    around,
    by_definition,
    covers_the_day,
    iso,
    lasts,
    ms,
    nexts,
)
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.triggers.kinds.calendar_interval import (
    CalendarIntervalSpec,
    IntervalUnit,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.schedule import first_allowed, parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec

BERLIN = "Europe/Berlin"
EVERY_MONTH = CalendarIntervalSpec(
    every=1,
    unit=IntervalUnit.MONTH,
    start_date="2026-01-31",
    at_time="09:30:00",
    timezone=BERLIN,
)
OFFICE_HOURS = DailyWindowSpec(
    every_ms=3_600_000,
    from_time="09:00:00",
    to_time="17:30:00",
    weekdays=(1, 2, 3, 4, 5),
    timezone=BERLIN,
)


def fires(spec: TriggerSpec, after: str, n: int, *, saved_at: int = 0) -> list[str | None]:
    schedule = parse(spec, saved_at=saved_at)
    found = []
    at: int | None = ms(after)
    for _ in range(n):
        assert at is not None
        at = schedule.next_after(at)
        found.append(iso(at, spec.timezone or "UTC"))
        if at is None:
            break
    return found


# --- calendar intervals ------------------------------------------------------------------------


def test_months_are_counted_from_the_first_day_and_not_from_the_last_fire() -> None:
    assert fires(EVERY_MONTH, "2026-01-01T00:00:00Z", 6) == [
        "2026-01-31T09:30:00+01:00",
        "2026-02-28T09:30:00+01:00",
        "2026-03-31T09:30:00+02:00",
        "2026-04-30T09:30:00+02:00",
        "2026-05-31T09:30:00+02:00",
        "2026-06-30T09:30:00+02:00",
    ]


def test_a_leap_day_is_kept_for_leap_years() -> None:
    spec = replace(EVERY_MONTH, unit=IntervalUnit.YEAR, start_date="2024-02-29", at_time="00:00:00")
    assert fires(spec, "2024-03-01T00:00:00Z", 4) == [
        "2025-02-28T00:00:00+01:00",
        "2026-02-28T00:00:00+01:00",
        "2027-02-28T00:00:00+01:00",
        "2028-02-29T00:00:00+01:00",
    ]


def test_days_and_weeks_are_not_multiples_of_24_hours() -> None:
    days = replace(EVERY_MONTH, unit=IntervalUnit.DAY, every=2, start_date="2026-03-27")
    weeks = replace(EVERY_MONTH, unit=IntervalUnit.WEEK, every=2, start_date="2026-10-12")
    assert fires(days, "2026-03-27T23:00:00Z", 2) == [
        "2026-03-29T09:30:00+02:00",
        "2026-03-31T09:30:00+02:00",
    ]
    assert fires(weeks, "2026-01-01T00:00:00Z", 2) == [
        "2026-10-12T09:30:00+02:00",
        "2026-10-26T09:30:00+01:00",
    ]


def test_an_interval_ends_with_the_year_2199() -> None:
    yearly = parse(replace(EVERY_MONTH, unit=IntervalUnit.YEAR, every=100), saved_at=0)
    assert nexts(yearly, 0, ms("2300-01-01T00:00:00Z") // 1000) == [
        ms("2026-01-31T09:30:00+01:00"),
        ms("2126-01-31T09:30:00+01:00"),
    ]
    monthly = parse(EVERY_MONTH, saved_at=0)
    assert monthly.last_before(ms("2500-01-01T00:00:00Z")) == ms("2199-12-31T09:30:00+01:00")
    assert monthly.next_after(ms("2199-12-31T09:30:00+01:00")) is None
    assert monthly.last_before(ms("2026-01-31T09:30:00+01:00")) is None


def _is_interval_wall(spec: TriggerSpec) -> Callable[[datetime], bool]:
    """By walking from the first day, so that no arithmetic of ours is repeated."""
    start = date.fromisoformat(spec.start_date or "")
    at = datetime.fromisoformat(f"2000-01-01T{spec.at_time}").time()
    step = spec.every or 0
    days = set()
    for index in range(3_000):
        if spec.unit in (IntervalUnit.DAY, IntervalUnit.WEEK):
            length = step * (7 if spec.unit is IntervalUnit.WEEK else 1)
            days.add(date.fromordinal(start.toordinal() + index * length))
        else:
            month = start.month - 1 + index * step * (12 if spec.unit is IntervalUnit.YEAR else 1)
            year, month = start.year + month // 12, month % 12 + 1
            if year > 2100:
                break
            days.add(date(year, month, min(start.day, monthrange(year, month)[1])))
    return lambda wall: wall.time() == at and wall.date() in days


@pytest.mark.parametrize("where", TRANSITIONS)
def test_intervals_around_transitions_are_as_defined(where: str) -> None:
    zone, day = TRANSITIONS[where]
    draw = random.Random(where)
    start, end = around(day, days=2)
    for _ in range(12):
        spec = CalendarIntervalSpec(
            every=draw.choice((1, 1, 2, 3)),
            unit=draw.choice(tuple(IntervalUnit)),
            start_date=str(date.fromordinal(day.toordinal() - draw.choice((0, 1, 2, 14, 365)))),
            at_time=f"{draw.choice((0, 0, 1, 2, 2, 3, 23)):02}:{draw.choice((0, 15, 30)):02}:00",
            gap=draw.choice(tuple(Gap)),
            overlap=draw.choice(tuple(Overlap)),
            timezone=zone,
        )
        schedule = parse(spec, saved_at=0)
        overlap = Overlap.FIRST if spec.overlap is Overlap.AUTO else spec.overlap
        expected = by_definition(
            _is_interval_wall(spec), ZoneInfo(zone), start, end, gap=spec.gap, overlap=overlap
        )
        assert nexts(schedule, start, end) == expected, spec
        assert lasts(schedule, start, end) == expected, spec


# --- daily windows -----------------------------------------------------------------------------


def test_a_window_opens_anew_on_each_of_its_weekdays() -> None:
    assert fires(OFFICE_HOURS, "2026-03-27T15:00:00+01:00", 5) == [
        "2026-03-27T16:00:00+01:00",
        "2026-03-27T17:00:00+01:00",
        "2026-03-30T09:00:00+02:00",
        "2026-03-30T10:00:00+02:00",
        "2026-03-30T11:00:00+02:00",
    ]


def test_the_end_of_a_window_belongs_to_it() -> None:
    spec = replace(OFFICE_HOURS, to_time="17:00:00", every_ms=4 * 3_600_000)
    assert fires(spec, "2026-03-02T00:00:00Z", 4) == [
        "2026-03-02T09:00:00+01:00",
        "2026-03-02T13:00:00+01:00",
        "2026-03-02T17:00:00+01:00",
        "2026-03-03T09:00:00+01:00",
    ]


def test_an_interval_longer_than_the_window_fires_once_a_day() -> None:
    spec = replace(OFFICE_HOURS, every_ms=86_400_000, weekdays=())
    assert fires(spec, "2026-03-28T08:00:00Z", 2) == [
        "2026-03-29T09:00:00+02:00",
        "2026-03-30T09:00:00+02:00",
    ]


def test_seconds_count() -> None:
    spec = replace(OFFICE_HOURS, every_ms=7_000, from_time="09:00:05", to_time="09:00:26")
    assert [
        (at or "")[11:19] for at in fires(spec, "2026-03-02T00:00:00Z", 5)
    ] == ["09:00:05", "09:00:12", "09:00:19", "09:00:26", "09:00:05"]  # fmt: skip


def _is_window_wall(spec: TriggerSpec) -> Callable[[datetime], bool]:
    start, end = (
        int(text[:2]) * 60 + int(text[3:5]) for text in (spec.from_time or "", spec.to_time or "")
    )
    every = (spec.every_ms or 0) // 60_000
    minutes = set(range(start, end + 1, every))
    weekdays = spec.weekdays or range(1, 8)
    return lambda wall: (
        wall.hour * 60 + wall.minute in minutes and wall.date().isoweekday() in weekdays
    )


def test_a_window_that_covers_the_day_goes_on_after_a_gap_without_a_fire_of_its_own() -> None:
    spec = replace(
        OFFICE_HOURS, every_ms=420_000, from_time="00:00:00", to_time="23:59:59", weekdays=()
    )
    assert fires(spec, "2026-03-29T01:55:00+01:00", 3) == [
        "2026-03-29T01:59:00+01:00",
        "2026-03-29T03:02:00+02:00",
        "2026-03-29T03:09:00+02:00",
    ]
    # One that leaves hours out has something to make up for: its 02:00.
    assert fires(replace(spec, every_ms=7_200_000), "2026-03-29T00:30:00+01:00", 2) == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-29T04:00:00+02:00",
    ]


@pytest.mark.parametrize("where", TRANSITIONS)
def test_windows_around_transitions_are_as_defined(where: str) -> None:
    zone, day = TRANSITIONS[where]
    draw = random.Random(where)
    start, end = around(day, days=2)
    for _ in range(12):
        first = draw.choice((0, 0, 30, 60, 135, 540))
        spec = DailyWindowSpec(
            every_ms=draw.choice((5, 15, 25, 40, 90, 300)) * 60_000,
            from_time=f"{first // 60:02}:{first % 60:02}:00",
            to_time=draw.choice(("10:00:00", "17:45:00", "23:59:00")),
            weekdays=draw.choice(((), (), (7,), (1, 6), (5, 6, 7))),
            gap=draw.choice(tuple(Gap)),
            overlap=draw.choice(tuple(Overlap)),
            timezone=zone,
        )
        schedule = parse(spec, saved_at=0)
        overlap = Overlap.BOTH if spec.overlap is Overlap.AUTO else spec.overlap
        is_wall = _is_window_wall(spec)
        gap = Gap.SKIP if covers_the_day(is_wall) else spec.gap
        expected = by_definition(is_wall, ZoneInfo(zone), start, end, gap=gap, overlap=overlap)
        assert nexts(schedule, start, end) == expected, spec
        assert lasts(schedule, start, end) == expected, spec


# --- arithmetic kinds --------------------------------------------------------------------------


def test_a_fixed_rate_starts_at_its_anchor_its_start_or_when_it_is_saved() -> None:
    rate = FixedRateSpec(every_ms=1_000)
    assert parse(rate, saved_at=250).next_after(0) == 250
    assert parse(replace(rate, start_at=5_300), saved_at=250).next_after(0) == 5_300
    anchored = replace(rate, start_at=5_300, anchor_at=100)
    assert parse(anchored, saved_at=250).next_after(0) == 6_100


def test_a_fixed_delay_names_its_first_fire_only() -> None:
    delay = FixedDelaySpec(every_ms=60_000)
    assert parse(delay, saved_at=1_000).next_after(0) == 61_000
    assert parse(replace(delay, initial_delay_ms=0), saved_at=1_000).next_after(0) == 1_000
    assert parse(replace(delay, start_at=90_000), saved_at=1_000).next_after(0) == 90_000
    assert parse(replace(delay, end_at=60_999), saved_at=1_000).next_after(0) is None
    assert parse(delay, saved_at=1_000).last_before(61_001) == 61_000


def test_the_next_fire_of_a_fixed_delay_keeps_to_the_bounds() -> None:
    delay = FixedDelaySpec(every_ms=60_000, start_at=10_000, end_at=20_000)
    assert first_allowed(delay, 5_000, calendar=None) == 10_000
    assert first_allowed(delay, 20_000, calendar=None) == 20_000
    assert first_allowed(delay, 20_001, calendar=None) is None


# --- bounds ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        EVERY_MONTH,
        OFFICE_HOURS,
        CronSpec(expression="0 9 * * *", timezone=BERLIN),
        FixedRateSpec(every_ms=3_600_000, anchor_at=1_000),
    ],
    ids=lambda spec: spec.kind,
)
def test_both_bounds_belong_to_the_schedule(spec: TriggerSpec) -> None:
    all_of_them = parse(spec, saved_at=0)
    first = all_of_them.next_after(ms("2026-03-20T00:00:00Z"))
    assert first is not None
    last = all_of_them.next_after(ms("2026-06-20T00:00:00Z"))
    assert last is not None
    bounded = parse(replace(spec, start_at=first, end_at=last), saved_at=0)
    expected = nexts(all_of_them, first // 1000, last // 1000 + 1)

    assert nexts(bounded, 0, 1 << 33) == expected
    assert lasts(bounded, 0, 1 << 33) == expected
    assert expected[0] == first
    assert expected[-1] == last
    inside = parse(replace(spec, start_at=first + 1, end_at=last - 1), saved_at=0)
    assert nexts(inside, 0, 1 << 33) == expected[1:-1]


def test_a_single_instant_may_be_its_own_bound() -> None:
    spec = OnceSpec(at=5_000, start_at=5_000, end_at=5_000)
    schedule = parse(spec, saved_at=0)
    assert (schedule.next_after(4_999), schedule.next_after(5_000)) == (5_000, None)
    assert (schedule.last_before(5_001), schedule.last_before(5_000)) == (5_000, None)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (OnceSpec(at=5_000, start_at=5_001), "at"),
        (OnceSpec(at=5_000, end_at=4_999), "at"),
        (FixedRateSpec(every_ms=100, start_at=2, end_at=1), "end_at"),
        (
            FixedRateSpec(every_ms=100, anchor_at=9_000, end_at=8_999),
            "end_at",
        ),
        (CronSpec(expression="0 9 1 1 *", end_at=1_000), "end_at"),
        (replace(EVERY_MONTH, end_at=ms("2026-01-31T09:29:59+01:00")), "end_at"),
        (replace(EVERY_MONTH, start_at=ms("2199-12-31T12:00:00Z")), "start_at"),
        (replace(OFFICE_HOURS, start_at=ms("2200-01-01T12:00:00Z")), "start_at"),
        (replace(EVERY_MONTH, start_date="2026-02-30"), "start_date"),
        (replace(EVERY_MONTH, start_date=None), "start_date"),
        (replace(EVERY_MONTH, at_time="24:00:00"), "at_time"),
        (replace(EVERY_MONTH, every=0), "every"),
        (replace(EVERY_MONTH, unit=None), "unit"),
        (replace(EVERY_MONTH, timezone="Mars/Base"), "timezone"),
        (
            replace(
                EVERY_MONTH, start_date="2026-03-29", at_time="02:30:00", every=1_000,
                unit=IntervalUnit.YEAR, gap=Gap.SKIP,
            ),
            "start_date",
        ),
        (replace(OFFICE_HOURS, to_time="09:00:00"), "to_time"),
        (replace(OFFICE_HOURS, from_time=None), "from_time"),
        (replace(OFFICE_HOURS, every_ms=1_500), "every_seconds"),
        (replace(OFFICE_HOURS, weekdays=(0,)), "weekdays"),
        (OnceSpec(), "at"),
        (FixedRateSpec(every_ms=50), "every_seconds"),
        (FixedDelaySpec(), "every_seconds"),
        (
            FixedDelaySpec(every_ms=100, initial_delay_ms=-1),
            "initial_delay_seconds",
        ),
        (CronSpec(expression="0 9 * * *", dialect="cronos"), "dialect"),
    ],
)  # fmt: skip
def test_what_cannot_fire_is_refused_by_the_field_at_fault(spec: TriggerSpec, field: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(spec, saved_at=0)
    assert caught.value.field == field


def test_when_a_fixed_rate_is_saved_never_makes_it_an_error() -> None:
    spec = FixedRateSpec(every_ms=100, end_at=5_000)
    assert parse(spec, saved_at=6_000).next_after(0) is None
