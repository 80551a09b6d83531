"""Calendars: what they take away, chained, in any zone, and how far they are jumped over."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from tests.admin.domain.schedule.clocks import around, by_definition, iso, lasts, ms, nexts
from tests.support.nightly import often
from tickwheel_admin.domain.calendars.calendar import (
    Calendar,
    CalendarSense,
    CalendarSpec,
    CronExclusion,
    TimeWindow,
)
from tickwheel_admin.domain.calendars.calendar_json import calendar_from_json, calendar_to_json
from tickwheel_admin.domain.calendars.compiled import CompiledCalendar, compiled
from tickwheel_admin.domain.calendars.filtered import AllowedTimes, Filtered
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.calendar import calendar_to_raw, parse_calendar
from tickwheel_admin.domain.schedule.allowed_grid import MAX_JUMPS
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.kinds.calendar_interval import (
    CalendarIntervalSpec,
    IntervalUnit,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.schedule import first_allowed, parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec, WallTimeSpec

DAY_MS = 86_400_000

BERLIN = "Europe/Berlin"
DAY = 86_400
HOLIDAYS = CalendarSpec(dates=("2026-10-01", "2026-10-02"), yearly=("12-25", "02-29"))
NIGHT = (
    TimeWindow(from_time="00:00:00", to_time="06:00:00"),
    TimeWindow(from_time="22:00:00", to_time="24:00:00"),
)


def calendar(spec: CalendarSpec, *, name: str = "c", base: Calendar | None = None) -> Calendar:
    return Calendar(name=name, version=1, spec=spec, base=base)


def wall(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def days_of(spec: CalendarSpec, month: str) -> list[int]:
    year, number = map(int, month.split("-"))
    mask = compiled(calendar(spec)).days(year, number)
    return [day for day in range(32) if mask >> day & 1]


# --- one calendar ------------------------------------------------------------------------------


def test_each_kind_of_day_is_taken_away() -> None:
    weekends = CalendarSpec(weekdays=(6, 7))
    assert days_of(weekends, "2026-02") == [
        2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 23, 24, 25, 26, 27,
    ]  # fmt: skip
    assert days_of(HOLIDAYS, "2026-10") == list(range(3, 32))
    assert 25 not in days_of(HOLIDAYS, "2031-12")
    assert days_of(HOLIDAYS, "2028-02") == list(range(1, 29))
    assert days_of(CalendarSpec(month_days=(1, 31)), "2026-02") == list(range(2, 29))


def test_an_including_calendar_leaves_only_what_it_names() -> None:
    workdays = CalendarSpec(
        sense=CalendarSense.INCLUDE, weekdays=(1, 2, 3, 4, 5), dates=("2026-10-10",)
    )
    assert days_of(workdays, "2026-10") == [
        1, 2, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 19, 20, 21, 22, 23, 26, 27, 28, 29, 30,
    ]  # fmt: skip


def test_windows_take_away_a_part_of_every_day() -> None:
    leaves = compiled(calendar(CalendarSpec(windows=NIGHT)))
    assert not leaves.allows(wall("2026-03-01T05:59:59"))
    assert leaves.allows(wall("2026-03-01T06:00:00"))
    assert leaves.allows(wall("2026-03-01T21:59:59"))
    assert leaves.next_allowed(wall("2026-03-01T22:00:00")) == wall("2026-03-02T06:00:00")
    assert leaves.last_allowed(wall("2026-03-02T05:00:00")) == wall("2026-03-01T21:59:59")


def test_an_including_calendar_keeps_what_is_in_days_and_windows() -> None:
    spec = CalendarSpec(
        sense=CalendarSense.INCLUDE,
        weekdays=(1,),
        windows=(TimeWindow(from_time="09:00:00", to_time="10:00:00"),),
    )
    leaves = compiled(calendar(spec))
    assert leaves.next_allowed(wall("2026-03-01T00:00:00")) == wall("2026-03-02T09:00:00")
    assert leaves.next_allowed(wall("2026-03-02T10:00:00")) == wall("2026-03-09T09:00:00")


def test_a_cron_exclusion_takes_the_seconds_that_it_matches() -> None:
    spec = CalendarSpec(
        cron=(
            CronExclusion(expression="0-29 * 12 ? * MON"),
            CronExclusion(expression="* * * * *", dialect=Dialect.UNIX),
        )
    )
    leaves = compiled(calendar(spec))
    assert leaves.next_allowed(wall("2026-03-02T12:05:00")) == wall("2026-03-02T12:05:30")
    assert leaves.next_allowed(wall("2026-03-02T13:05:00")) == wall("2026-03-02T13:05:01")
    assert leaves.allows(wall("2026-03-03T12:05:01"))


# --- chains ------------------------------------------------------------------------------------


def test_a_fire_must_be_left_by_the_whole_chain() -> None:
    base = calendar(HOLIDAYS, name="holidays")
    chained = calendar(CalendarSpec(windows=NIGHT), name="nights", base=base)
    leaves = compiled(chained)
    assert leaves.next_allowed(wall("2026-09-30T23:00:00")) == wall("2026-10-03T06:00:00")
    assert leaves.who_refuses(wall("2026-10-01T12:00:00")) == "holidays"
    assert leaves.who_refuses(wall("2026-09-30T23:00:00")) == "nights"
    assert leaves.who_refuses(wall("2026-09-30T12:00:00")) is None


def test_windows_that_leave_nothing_together_leave_no_day() -> None:
    morning = CalendarSpec(
        sense=CalendarSense.INCLUDE,
        windows=(TimeWindow(from_time="01:00:00", to_time="02:00:00"),),
    )
    leaves = compiled(calendar(CalendarSpec(windows=NIGHT), base=calendar(morning)))
    assert leaves.days(2026, 3) == 0
    assert leaves.next_allowed(wall("2026-03-01T00:00:00")) is None
    assert leaves.last_allowed(wall("2026-03-01T00:00:00")) is None


def test_a_search_that_gave_up_is_not_made_again() -> None:
    """Or a transaction that it made too long would be as long whenever it is repeated."""
    asked: list[int] = []

    class Daily:
        def next_after(self, instant: int) -> int | None:
            asked.append(instant)
            return (instant // DAY_MS + 1) * DAY_MS

        def last_before(self, instant: int) -> int | None:
            raise AssertionError(instant)

    window = TimeWindow(from_time="00:00:00", to_time="01:00:00")
    calendar = Calendar(name="c", version=1, spec=CalendarSpec(windows=(window,)))
    filtered = Filtered(Daily(), AllowedTimes(compiled(calendar), zone_of("UTC")))

    assert filtered.next_after(0) is None
    searched = len(asked)
    assert searched > 1_000
    assert filtered.next_after(0) is None
    assert len(asked) == searched
    assert filtered.next_after(1) is None
    assert len(asked) == 2 * searched


@pytest.mark.parametrize(
    "spec",
    [
        CalendarSpec(cron=(CronExclusion(expression="* * * ? * *"),)),
        CalendarSpec(
            cron=(
                CronExclusion(expression="0/2 * * ? * *"),
                CronExclusion(expression="1/2 * * ? * *"),
            )
        ),
        CalendarSpec(weekdays=(1, 2, 3, 4, 5), month_days=tuple(range(1, 32))),
        CalendarSpec(sense=CalendarSense.INCLUDE, dates=("1999-01-01",)),
    ],
)
def test_a_calendar_that_leaves_nothing_ends_a_trigger_and_not_the_search(
    spec: CalendarSpec,
) -> None:
    rate = FixedRateSpec(every_ms=100, timezone=BERLIN)
    schedule = parse(rate, saved_at=ms("2026-01-01T00:00:00Z"), calendar=calendar(spec))
    assert schedule.next_after(ms("2026-03-01T00:00:00Z")) is None
    assert schedule.last_before(ms("2026-03-01T00:00:00Z")) is None


@pytest.mark.parametrize("end", [None, "2027-01-01T00:00:00Z"])
def test_a_calendar_that_leaves_nothing_is_no_reason_to_refuse_a_trigger(end: str | None) -> None:
    """Calendars change: the trigger has fires again when this one does."""
    never = calendar(CalendarSpec(month_days=tuple(range(1, 32))))
    spec = CronSpec(expression="0 9 * * *", end_at=None if end is None else ms(end))
    assert parse(spec, saved_at=0, calendar=never).next_after(0) is None


def test_a_year_of_excluded_fires_is_jumped_over() -> None:
    spec = CalendarSpec(cron=(CronExclusion(expression="* * * ? * * 2026"),))
    rate = FixedRateSpec(every_ms=100, timezone=BERLIN)
    schedule = parse(rate, saved_at=50, calendar=calendar(spec))
    assert schedule.next_after(ms("2026-03-01T00:00:00Z")) == ms("2027-01-01T00:00:00.050+01:00")
    assert schedule.last_before(ms("2026-03-01T00:00:00Z")) == ms("2025-12-31T23:59:59.950+01:00")


def test_a_fixed_delay_waits_for_what_its_calendar_leaves() -> None:
    delay = FixedDelaySpec(every_ms=60_000, timezone=BERLIN)
    nights = calendar(CalendarSpec(windows=NIGHT))
    late = ms("2026-03-28T22:30:00+01:00")
    assert iso(first_allowed(delay, late, calendar=nights), BERLIN) == "2026-03-29T06:00:00+02:00"
    assert parse(delay, saved_at=late, calendar=nights).next_after(0) == ms(
        "2026-03-29T06:00:00+02:00"
    )


# --- in zones, with every kind -----------------------------------------------------------------


def random_spec(draw: random.Random, day: date = date(2026, 3, 29)) -> CalendarSpec:
    includes = draw.random() < 0.4
    windows = []
    for _ in range(draw.choice((0, 1, 2))):
        first, last = sorted(draw.sample(range(49), 2))
        windows.append(TimeWindow(from_time=_half_hour(first), to_time=_half_hour(last)))
    crons = ("0 30 1-3 * * ?", "0 */20 2 ? * SUN", "* * 0-4 L * ?", "0 0 * ? 3,10 SAT,SUN")
    return CalendarSpec(
        sense=CalendarSense.INCLUDE if includes else CalendarSense.EXCLUDE,
        dates=tuple(
            str(day + timedelta(days=draw.randrange(-2, 3))) for _ in range(draw.choice((0, 1, 3)))
        ),
        weekdays=draw.choice(((), (6,), (7,), (6, 7), (1, 2, 3))),
        windows=tuple(windows),
        cron=() if includes else tuple(map(_exclusion, draw.sample(crons, draw.choice((0, 1, 2))))),
    )


def _half_hour(number: int) -> str:
    return f"{number // 2:02}:{number % 2 * 30:02}:00"


def _exclusion(expression: str) -> CronExclusion:
    return CronExclusion(expression=expression)


CRON = CronSpec()
WINDOW = DailyWindowSpec(every_ms=1_500_000, from_time="00:10:00", to_time="23:00:00")
INTERVAL = CalendarIntervalSpec(every=1, unit=IntervalUnit.DAY, start_date="1990-03-01")
# Each with the minutes of a day that it names.
SPECS: tuple[tuple[TriggerSpec, range | list[int]], ...] = (
    (replace(CRON, expression="*/10 * * * *"), range(0, 1440, 10)),
    (replace(CRON, expression="30 0-4 * * *", overlap=Overlap.SECOND), range(30, 300, 60)),
    (replace(CRON, expression="30 23 * * *"), [1410]),
    (replace(CRON, expression="0,40 0,23 * * *"), [0, 40, 1380, 1420]),
    (WINDOW, range(10, 1381, 25)),
    (replace(WINDOW, every_ms=420_000, from_time="00:00:00", to_time="23:59:59"),
     range(0, 1440, 7)),
    (replace(WINDOW, every_ms=5_400_000, from_time="08:30:00", to_time="23:30:00"),
     range(510, 1411, 90)),
    (replace(INTERVAL, at_time="02:30:00"), [150]),
    (replace(INTERVAL, at_time="23:30:00", overlap=Overlap.BOTH), [1410]),
    (replace(INTERVAL, at_time="00:00:00", gap=Gap.SKIP), [0]),
)  # fmt: skip
CHANGES = {
    "Berlin forward": (BERLIN, date(2026, 3, 29)),
    "Berlin back": (BERLIN, date(2026, 10, 25)),
    "Lord Howe back": ("Australia/Lord_Howe", date(2026, 4, 5)),
    "Sao Paulo forward at midnight": ("America/Sao_Paulo", date(2018, 11, 4)),
    "Sao Paulo back over midnight": ("America/Sao_Paulo", date(2018, 2, 18)),
    "Nuuk forward to midnight": ("America/Nuuk", date(2026, 3, 29)),
    "Nuuk back over midnight": ("America/Nuuk", date(2026, 10, 25)),
    "Pyongyang half an hour to midnight": ("Asia/Pyongyang", date(2018, 5, 5)),
    "Apia without 30 December": ("Pacific/Apia", date(2011, 12, 30)),
    "Kiritimati without New Year's Eve": ("Pacific/Kiritimati", date(1994, 12, 31)),
}


def _overlap_of(spec: WallTimeSpec) -> Overlap:
    if spec.overlap is not Overlap.AUTO:
        return spec.overlap
    if isinstance(spec, CronSpec):
        is_interval = any(sign in (spec.expression or "")[:-6] for sign in "*-/")
        return Overlap.BOTH if is_interval else Overlap.FIRST
    return Overlap.BOTH if isinstance(spec, DailyWindowSpec) else Overlap.FIRST


@pytest.mark.parametrize("where", CHANGES)
def test_a_calendar_takes_the_wall_times_that_a_trigger_names_of_whatever_kind(where: str) -> None:
    """Before the clocks move them: a time in a gap counts with the date it was scheduled for."""
    zone, day = CHANGES[where]
    draw = random.Random(where)
    start, end = around(day, days=3)
    for _ in range(often(1, by_night=4)):
        base = calendar(random_spec(draw, day), name="base") if draw.random() < 0.5 else None
        filtering = calendar(random_spec(draw, day), base=base)
        leaves = compiled(filtering)
        for each, minutes in SPECS:
            spec = replace(each, timezone=zone)
            named = set(minutes)
            is_whole_day = len({minute // 60 for minute in named}) == 24

            def counts(
                at: datetime, named: set[int] = named, leaves: CompiledCalendar = leaves
            ) -> bool:
                return at.hour * 60 + at.minute in named and leaves.allows(wall(at.isoformat()))

            expected = by_definition(
                counts, ZoneInfo(zone), start, end,
                gap=Gap.SKIP if is_whole_day else spec.gap, overlap=_overlap_of(spec),
            )  # fmt: skip
            filtered = parse(spec, saved_at=0, calendar=filtering)
            assert nexts(filtered, start, end) == expected, (spec, filtering)
            assert lasts(filtered, start, end) == expected, (spec, filtering)


@pytest.mark.parametrize(
    "spec",
    [
        replace(CRON, expression="30 23 * * *"),
        replace(INTERVAL, at_time="23:30:00"),
        replace(WINDOW, every_ms=3_600_000, from_time="22:30:00", to_time="23:59:00"),
    ],
    ids=lambda spec: spec.kind,
)
def test_a_fire_that_a_gap_moves_past_midnight_belongs_to_the_date_it_was_scheduled_for(
    spec: TriggerSpec,
) -> None:
    """In Nuuk, 23:00 on Saturday 28 March 2026 is midnight."""
    nuuk = replace(spec, timezone="America/Nuuk")
    moved = ms("2026-03-29T00:00:00-01:00")
    for weekday, fires in ((6, False), (7, True)):
        without = calendar(CalendarSpec(weekdays=(weekday,)))
        schedule = parse(nuuk, saved_at=0, calendar=without)
        assert (schedule.next_after(moved - 1) == moved) is fires
        assert (schedule.last_before(moved + 1) == moved) is fires


@pytest.mark.parametrize("where", CHANGES)
def test_kinds_without_wall_times_go_by_what_the_clocks_show(where: str) -> None:
    zone, day = CHANGES[where]
    draw = random.Random(where)
    start, end = around(day, days=3)
    spec = FixedRateSpec(every_ms=1_234_567, timezone=zone)
    for _ in range(3):
        filtering = calendar(random_spec(draw, day))
        leaves = compiled(filtering)
        everything = parse(spec, saved_at=start * 1000)
        expected = [at for at in nexts(everything, start, end) if leaves.allows(_wall_of(at, zone))]
        filtered = parse(spec, saved_at=start * 1000, calendar=filtering)
        assert nexts(filtered, start, end) == expected, filtering
        assert lasts(filtered, start, end) == expected, filtering


def test_schedule_and_calendar_that_never_meet_are_searched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = []
    allows = CompiledCalendar.allows

    def counted(self: CompiledCalendar, at: int) -> bool:
        looked.append(at)
        return allows(self, at)

    monkeypatch.setattr(CompiledCalendar, "allows", counted)
    window = TimeWindow(from_time="09:00:00", to_time="24:00:00")
    mornings = calendar(CalendarSpec(windows=(window,)))
    for each in (replace(CRON, expression="0 9 * * *"), replace(INTERVAL, at_time="09:00:00")):
        schedule = parse(replace(each, timezone=BERLIN), saved_at=0, calendar=mornings)
        looked.clear()
        assert schedule.next_after(ms("2026-03-01T00:00:00Z")) is None
        assert len(looked) == MAX_JUMPS
        assert schedule.next_after(ms("2026-03-01T00:00:00Z")) is None
        assert len(looked) == MAX_JUMPS


def _wall_of(at: int, zone: str) -> int:
    shown = iso(at, zone)
    assert shown is not None
    return wall(shown[:19])


def test_each_next_allowed_second_is_found_by_looking_at_all_of_them() -> None:
    draw = random.Random(5)
    for _ in range(6):
        leaves = compiled(calendar(random_spec(draw)))
        start = wall("2026-03-27T00:00:00")
        allowed = [at for at in range(start, start + 3 * DAY, 60) if leaves.allows(at)]
        for _ in range(100):
            at = start + draw.randrange(3 * 1440) * 60
            found = leaves.next_allowed(at)
            ahead = next((each for each in allowed if each >= at), None)
            if found is not None and found % 60 == 0 and found < start + 3 * DAY:
                assert found == ahead
            elif found is not None:
                assert leaves.allows(found)
                assert ahead is None or found < ahead
            else:
                assert ahead is None


# --- as people write them ----------------------------------------------------------------------

FULL: dict[str, Any] = {
    "name": "China 2026",
    "description": "Holidays,\nwith nights.",
    "sense": "exclude",
    "dates": ["2026-10-01", "2026-10-02"],
    "yearly": ["01-01", "02-29"],
    "month_days": [1, 31],
    "weekdays": ["sat", "sun"],
    "windows": [
        {"from_time": "00:00:00", "to_time": "06:30:00"},
        {"from_time": "22:00:00", "to_time": "24:00:00"},
    ],
    "cron": [{"expression": "0 0 12 L * ?", "dialect": "quartz"}],
    "base": "weekends",
}


def test_raw_calendars_come_back_as_they_were() -> None:
    name, description, spec = parse_calendar(FULL)
    assert calendar_to_raw(name, description, spec) == FULL
    assert calendar_from_json(calendar_to_json(spec)) == spec


def test_entries_are_put_in_order_and_kept_once() -> None:
    raw = {
        "name": "c",
        "dates": ["2026-10-02", "2026-10-01", "2026-10-02"],
        "weekdays": ["sun", "sat", "sun"],
        "month_days": [31, 1, 1],
        "windows": [{"from_time": "9:00", "to_time": "10:00"}] * 2,
    }
    spec = parse_calendar(raw)[2]
    assert spec.dates == ("2026-10-01", "2026-10-02")
    assert spec.weekdays == (6, 7)
    assert spec.month_days == (1, 31)
    assert spec.windows == (TimeWindow(from_time="09:00:00", to_time="10:00:00"),)


def test_a_stored_calendar_says_only_what_differs() -> None:
    assert calendar_to_json(CalendarSpec(dates=("2026-10-01",))) == '{"dates":["2026-10-01"]}'


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": " "}, [("name", "required")]),
        ({"name": "x" * 101}, [("name", "too_long")]),
        ({"sense": "both"}, [("sense", "not_one_of")]),
        ({"dates": "2026-10-01"}, [("dates", "wrong_type")]),
        ({"dates": ["2026-10-01", "2026-13-01"]}, [("dates[1]", "entry.invalid")]),
        ({"dates": ["20261001"]}, [("dates[0]", "entry.invalid")]),
        ({"dates": ["2200-01-01"]}, [("dates[0]", "entry.invalid")]),
        ({"dates": ["x"] * 9}, [(f"dates[{n}]", "entry.invalid") for n in range(5)]),
        ({"dates": ["2026-10-01"] * 10_001}, [("dates", "too_many")]),
        ({"yearly": ["02-30"]}, [("yearly[0]", "entry.invalid")]),
        ({"month_days": [0, True, 32]}, [(f"month_days[{n}]", "entry.invalid") for n in range(3)]),
        ({"weekdays": [6, "Sat"]}, [(f"weekdays[{n}]", "entry.invalid") for n in range(2)]),
        (
            {"windows": [{"from_time": "22:00", "to_time": "06:00"}]},
            [("windows[0].to_time", "out_of_range")],
        ),
        ({"windows": [{"from_time": "22:00"}]}, [("windows[0].to_time", "required")]),
        (
            {"windows": [{"from": "22:00", "to_time": "24:00:01"}]},
            [
                ("windows[0].from", "unknown_field"),
                ("windows[0].from_time", "required"),
                ("windows[0].to_time", "time.invalid"),
            ],
        ),
        ({"cron": [{"expression": "0 9 * * *"}]}, [("cron[0].expression", "cron.invalid")]),
        ({"cron": ["0 0 9 * * ?"]}, [("cron[0]", "wrong_type")]),
        (
            {"sense": "include", "weekdays": ["mon"], "cron": [{"expression": "0 0 9 * * ?"}]},
            [("cron", "does_not_apply")],
        ),
        ({"sense": "include", "base": "other"}, [("sense", "calendar.nothing_left")]),
        ({"month_days": list(range(1, 32))}, [("month_days", "calendar.nothing_left")]),
        ({"base": "c"}, [("base", "calendar.circle")]),
        ({"holidays": []}, [("holidays", "unknown_field")]),
    ],
)
def test_calendar_problems_name_their_field(
    changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_calendar({"name": "c", **changes})
    assert [(p.field, p.code) for p in caught.value.problems] == expected
