"""Why a trigger does not fire on a date: every rule that stands against it, and no other."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.admin.domain.schedule.clocks import iso, ms
from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec, TimeWindow
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap
from tickwheel_admin.domain.triggers.explain import Explanation, explain
from tickwheel_admin.domain.triggers.kinds.calendar_interval import (
    CalendarIntervalSpec,
    IntervalUnit,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec

BERLIN = "Europe/Berlin"
HOLIDAYS = Calendar(name="holidays", version=1, spec=CalendarSpec(dates=("2026-10-01",)))
DAILY = CronSpec(expression="0 9 * * *", timezone=BERLIN)


def of(spec: TriggerSpec, date: str, **more: Any) -> Explanation:
    return explain(spec, date=date, saved_at=ms("2026-01-01T08:00:00Z"), **more)


def quartz(expression: str) -> TriggerSpec:
    return replace(DAILY, expression=expression, dialect="quartz")


def test_a_date_with_fires_needs_no_reasons() -> None:
    found = of(replace(DAILY, expression="0 9,17 * * *"), "2026-10-01")
    assert [iso(at, BERLIN) for at in found.fires] == [
        "2026-10-01T09:00:00+02:00",
        "2026-10-01T17:00:00+02:00",
    ]
    assert found.reasons == ()
    assert len(of(replace(DAILY, expression="* * * * *"), "2026-10-01").fires) == 100


@pytest.mark.parametrize(
    ("spec", "codes"),
    [
        (quartz("0 0 9 1 10 ? 2027"), ["year"]),
        (quartz("0 0 9 1 9 ?"), ["month"]),
        (quartz("0 0 9 L * ?"), ["day_of_month"]),
        (quartz("0 0 9 ? * FRI"), ["day_of_week"]),
        (quartz("0 0 9 ? 9 FRI 2027"), ["year", "month", "day_of_week"]),
        (replace(DAILY, expression="0 9 13 * 5"), ["day_of_month", "day_of_week"]),
        (replace(DAILY, expression="0 9 13 9 4"), ["month"]),
        (replace(DAILY, expression="0 0 9 13 * THU", dialect="spring"), ["day_of_month"]),
        (replace(DAILY, start_at=ms("2026-10-01T10:00:00+02:00")), ["before_start"]),
        (replace(DAILY, end_at=ms("2026-10-01T08:00:00+02:00")), ["after_end"]),
        (
            replace(
                DAILY, expression="0 9,17 * * *", start_at=ms("2026-10-01T10:00:00+02:00"),
                end_at=ms("2026-10-02T16:00:00+02:00"),
            ),
            [],
        ),
        (
            DailyWindowSpec(every_ms=60_000, from_time="09:00:00",
                to_time="10:00:00", weekdays=(1,), timezone=BERLIN,
            ),
            ["weekday"],
        ),
        (
            CalendarIntervalSpec(every=2, unit=IntervalUnit.DAY,
                start_date="2026-09-30", at_time="09:00:00", timezone=BERLIN,
            ),
            ["between_fires"],
        ),
        (
            CalendarIntervalSpec(every=2, unit=IntervalUnit.DAY,
                start_date="2026-10-02", at_time="09:00:00", timezone=BERLIN,
            ),
            ["before_first"],
        ),
        (
            FixedRateSpec(every_ms=200 * 3_600_000, timezone=BERLIN,
                anchor_at=ms("2026-09-30T00:00:00Z"),
            ),
            ["between_fires"],
        ),
        (OnceSpec(at=ms("2026-09-30T00:00:00Z")), ["another_instant"]),
        (FixedDelaySpec(every_ms=60_000), ["follows_run"]),
    ],
)  # fmt: skip
def test_each_rule_is_named(spec: TriggerSpec, codes: list[str]) -> None:
    found = of(spec, "2026-10-01")
    assert [reason.code for reason in found.reasons] == codes
    assert bool(found.fires) == (not codes)


def test_texts_and_their_params_fit() -> None:
    texts = [
        each.template % each.params for each in of(quartz("0 0 9 ? 9 FRI"), "2026-10-01").reasons
    ]
    assert texts == [
        "The month field “9” leaves October out.",
        "The day-of-week field “FRI” leaves this Thursday out.",
    ]


def test_a_calendar_is_named_with_what_else_stands_against_the_date() -> None:
    spec = replace(DAILY, calendar="holidays")
    (reason,) = of(spec, "2026-10-01", calendar=HOLIDAYS).reasons
    assert (reason.code, reason.params) == ("calendar", {"calendar": "holidays"})
    other = replace(spec, expression="0 9 2 * *")
    assert [each.code for each in of(other, "2026-10-01", calendar=HOLIDAYS).reasons] == [
        "day_of_month",
        "calendar",
    ]
    assert of(spec, "2026-10-02", calendar=HOLIDAYS).reasons == ()


def test_a_window_of_a_calendar_takes_the_fires_of_a_date() -> None:
    mornings = CalendarSpec(windows=(TimeWindow(from_time="00:00:00", to_time="12:00:00"),))
    based = Calendar(name="mornings", version=1, spec=mornings)
    chained = Calendar(name="company", version=1, spec=CalendarSpec(), base=based)
    (reason,) = of(DAILY, "2026-10-01", calendar=chained).reasons
    assert (reason.code, reason.params) == ("calendar", {"calendar": "mornings"})


def test_bounds_that_leave_nothing_of_a_date_are_both_named() -> None:
    spec = replace(
        DAILY, expression="0 9,17 * * *", start_at=ms("2026-10-01T10:00:00+02:00"),
        end_at=ms("2026-10-03T16:00:00+02:00"), calendar="h",
    )  # fmt: skip
    afternoons = CalendarSpec(windows=(TimeWindow(from_time="12:00:00", to_time="24:00:00"),))
    calendar = Calendar(name="h", version=1, spec=afternoons)
    found = of(spec, "2026-10-01", calendar=calendar)
    assert [each.code for each in found.reasons] == ["before_start", "calendar"]


def test_what_clocks_do_is_a_reason() -> None:
    spec = replace(DAILY, expression="30 2 * * *", gap=Gap.SKIP)
    assert [each.code for each in of(spec, "2026-03-29").reasons] == ["gap_skipped"]
    assert [iso(at, BERLIN) for at in of(replace(spec, gap=Gap.FIRE), "2026-03-29").fires] == [
        "2026-03-29T03:00:00+02:00"
    ]
    apia = replace(DAILY, timezone="Pacific/Apia")
    assert [each.code for each in of(apia, "2011-12-30").reasons] == ["no_such_day"]


def test_a_fixed_rate_keeps_the_anchor_that_its_start_gave_it() -> None:
    spec = FixedRateSpec(every_ms=48 * 3_600_000, start_at=ms("2026-09-30T06:00:00Z"))
    (reason,) = of(spec, "2026-10-01").reasons
    assert reason.params == {"earlier": "2026-09-30", "later": "2026-10-02"}
    assert [each.code for each in of(spec, "2026-09-29").reasons] == [
        "before_start",
        "before_first",
    ]


@pytest.mark.parametrize("date", ["", "2026-02-30", "1969-12-31", "2200-01-01", "tomorrow"])
def test_a_date_that_is_none_is_refused(date: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        of(DAILY, date)
    assert caught.value.field == "date"
