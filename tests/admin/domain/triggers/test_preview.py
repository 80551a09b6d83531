"""The next fires with their marks, and the dates that a calendar removes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.admin.domain.schedule.clocks import iso, ms
from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec, TimeWindow
from tickwheel_admin.domain.calendars.compiled import CompiledCalendar
from tickwheel_admin.domain.schedule.allowed_grid import MAX_JUMPS
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.triggers.kinds.calendar_interval import (
    CalendarIntervalSpec,
    IntervalUnit,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.preview import MAX_PREVIEW, Mark, Preview, preview
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec

BERLIN = "Europe/Berlin"
AT_HALF_PAST_TWO = CronSpec(expression="30 2 * * *", timezone=BERLIN)


def shown(found: Preview, zone: str = BERLIN) -> list[tuple[str | None, Mark | None]]:
    return [(iso(fire.at, zone), fire.mark) for fire in found.fires]


def of(spec: TriggerSpec, after: str, n: int, **more: Any) -> Preview:
    return preview(spec, after=ms(after), n=n, saved_at=0, **more)


def test_a_fire_that_clocks_move_is_marked() -> None:
    assert shown(of(AT_HALF_PAST_TWO, "2026-03-28T00:00:00Z", 3)) == [
        ("2026-03-28T02:30:00+01:00", None),
        ("2026-03-29T03:00:00+02:00", Mark.GAP),
        ("2026-03-30T02:30:00+02:00", None),
    ]


def test_the_first_fire_after_a_gap_is_not_moved_when_it_is_its_own_time() -> None:
    spec = replace(AT_HALF_PAST_TWO, expression="0 3 * * *")
    both = replace(AT_HALF_PAST_TWO, expression="0,30 2,3 * * *")
    assert shown(of(spec, "2026-03-29T00:00:00Z", 1)) == [
        ("2026-03-29T03:00:00+02:00", Mark.DST_NIGHT)
    ]
    assert shown(of(both, "2026-03-29T00:00:00Z", 1))[0][1] is Mark.DST_NIGHT


def test_both_passes_are_marked() -> None:
    spec = replace(AT_HALF_PAST_TWO, overlap=Overlap.BOTH)
    assert shown(of(spec, "2026-10-24T12:00:00Z", 3)) == [
        ("2026-10-25T02:30:00+02:00", Mark.OVERLAP_FIRST),
        ("2026-10-25T02:30:00+01:00", Mark.OVERLAP_SECOND),
        ("2026-10-26T02:30:00+01:00", None),
    ]
    first = of(AT_HALF_PAST_TWO, "2026-10-24T12:00:00Z", 1)
    assert shown(first) == [("2026-10-25T02:30:00+02:00", Mark.OVERLAP_FIRST)]


def test_other_fires_of_such_a_date_are_marked_too() -> None:
    spec = replace(AT_HALF_PAST_TWO, expression="0 12 * * *")
    marks = [mark for _, mark in shown(of(spec, "2026-03-27T12:00:00Z", 3))]
    assert marks == [None, Mark.DST_NIGHT, None]
    skipping = replace(AT_HALF_PAST_TWO, gap=Gap.SKIP)
    assert shown(of(skipping, "2026-03-28T12:00:00Z", 1)) == [("2026-03-30T02:30:00+02:00", None)]


def test_an_interval_whose_only_fire_is_moved() -> None:
    spec = CalendarIntervalSpec(every=1_000, unit=IntervalUnit.YEAR,
        start_date="2026-03-29", at_time="02:15:00", timezone=BERLIN,
    )  # fmt: skip
    assert shown(of(spec, "2026-01-01T00:00:00Z", 5)) == [("2026-03-29T03:00:00+02:00", Mark.GAP)]


def test_kinds_without_wall_times_have_no_marks() -> None:
    spec = FixedRateSpec(every_ms=1_800_000, timezone=BERLIN)
    found = of(spec, "2026-10-25T00:00:00Z", 3)
    assert [fire.mark for fire in found.fires] == [None, None, None]
    assert [fire.offset_minutes for fire in found.fires] == [120, 60, 60]


def test_a_preview_is_what_parse_gives() -> None:
    schedule = parse(AT_HALF_PAST_TWO, saved_at=0)
    at: int | None = ms("2026-01-01T00:00:00Z")
    for fire in of(AT_HALF_PAST_TWO, "2026-01-01T00:00:00Z", 400).fires:
        assert at is not None
        at = schedule.next_after(at)
        assert fire.at == at


@pytest.mark.parametrize(("n", "count"), [(0, 0), (3, 3), (50, 12), (10**9, 12)])
def test_no_more_fires_than_there_are_or_are_repeated(n: int, count: int) -> None:
    monthly = replace(AT_HALF_PAST_TWO, expression="30 2 1 * *", end_at=ms("2026-12-31T00:00:00Z"))
    assert len(of(monthly, "2025-12-31T12:00:00Z", n).fires) == count
    repeated = replace(AT_HALF_PAST_TWO, repeat_count=12)
    assert len(of(repeated, "2025-12-31T12:00:00Z", n).fires) == count


def test_a_preview_has_an_end() -> None:
    assert len(of(AT_HALF_PAST_TWO, "2026-01-01T00:00:00Z", 10**9).fires) == MAX_PREVIEW


# --- removed dates -----------------------------------------------------------------------------

WEEKENDS = Calendar(name="weekends", version=1, spec=CalendarSpec(weekdays=(6, 7)))
HOLIDAYS = Calendar(
    name="holidays", version=1, spec=CalendarSpec(dates=("2026-04-03", "2026-04-06")), base=WEEKENDS
)


def test_dates_that_a_calendar_removes_are_named_with_the_calendar_of_the_chain() -> None:
    spec = replace(AT_HALF_PAST_TWO, expression="0 9 * * *")
    found = of(spec, "2026-04-02T12:00:00Z", 2, calendar=HOLIDAYS)
    assert [iso(fire.at, BERLIN) for fire in found.fires] == [
        "2026-04-07T09:00:00+02:00",
        "2026-04-08T09:00:00+02:00",
    ]
    assert [(day.date, day.calendar) for day in found.removed] == [
        ("2026-04-03", "holidays"),
        ("2026-04-04", "weekends"),
        ("2026-04-05", "weekends"),
        ("2026-04-06", "holidays"),
    ]


def test_only_dates_on_which_it_would_have_fired_count() -> None:
    spec = replace(AT_HALF_PAST_TWO, expression="0 9 * * 1")
    found = of(spec, "2026-04-01T12:00:00Z", 2, calendar=HOLIDAYS)
    assert [day.date for day in found.removed] == ["2026-04-06"]


def test_a_date_that_keeps_a_fire_is_not_removed() -> None:
    mornings = CalendarSpec(windows=(TimeWindow(from_time="00:00:00", to_time="12:00:00"),))
    spec = replace(AT_HALF_PAST_TWO, expression="0 9,15 * * *")
    calendar = Calendar(name="mornings", version=1, spec=mornings)
    found = of(spec, "2026-04-01T00:00:00Z", 2, calendar=calendar)
    assert [(iso(fire.at, BERLIN) or "")[11:16] for fire in found.fires] == ["15:00", "15:00"]
    assert found.removed == ()


def test_a_calendar_that_leaves_nothing_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    allows = CompiledCalendar.allows

    def counted(self: CompiledCalendar, wall: int) -> bool:
        searched.append(wall)
        return allows(self, wall)

    monkeypatch.setattr(CompiledCalendar, "allows", counted)
    afternoons = CalendarSpec(windows=(TimeWindow(from_time="00:00:00", to_time="12:00:00"),))
    calendar = Calendar(name="afternoons", version=1, spec=afternoons)
    found = of(AT_HALF_PAST_TWO, "2026-04-01T00:00:00Z", 5, calendar=calendar)
    assert len(found.removed) == 20
    assert len(searched) == 2 * MAX_JUMPS  # once for the fires, once for the dates


def test_removed_dates_are_shown_even_when_no_fire_is_left_and_have_an_end() -> None:
    nothing = CalendarSpec(weekdays=(1, 2, 3, 4, 5, 6), month_days=tuple(range(1, 32)))
    calendar = Calendar(name="always", version=1, spec=nothing)
    found = of(AT_HALF_PAST_TWO, "2026-04-01T00:00:00Z", 5, calendar=calendar)
    assert found.fires == ()
    assert len(found.removed) == 20
    assert found.removed[0].date == "2026-04-01"


@pytest.mark.parametrize("weekday", [6, 7])
def test_a_removed_date_is_the_one_that_the_fire_was_scheduled_for(weekday: int) -> None:
    """Clocks in Nuuk go forward from Saturday 23:00 to midnight, over 23:30."""
    spec = replace(AT_HALF_PAST_TWO, expression="30 23 * * *", timezone="America/Nuuk")
    calendar = Calendar(name="c", version=1, spec=CalendarSpec(weekdays=(weekday,)))
    found = of(spec, "2026-03-27T12:00:00Z", 3, calendar=calendar)
    moved = [fire for fire in found.fires if fire.mark is Mark.GAP]
    assert [iso(fire.at, "America/Nuuk") for fire in moved] == (
        [] if weekday == 6 else ["2026-03-29T00:00:00-01:00"]
    )
    assert [day.date for day in found.removed] == ["2026-03-28" if weekday == 6 else "2026-03-29"]
