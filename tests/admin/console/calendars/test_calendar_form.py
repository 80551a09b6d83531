"""The calendar form gives back every calendar as it was stored; heat maps and years as pictures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from multidict import MultiDict

from tickwheel_admin.console.calendars.form import (
    calendar_form_as_sent,
    calendar_of_form,
    form_of_calendar,
)
from tickwheel_admin.console.calendars.heat_map import clock_table, midnight_of, row_table
from tickwheel_admin.console.calendars.year import year_picture
from tickwheel_admin.console.frame.formatting import tiny_number
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, RequestLocale
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.calendar import parse_calendar
from tickwheel_admin.services.triggers.service import Heat, HeatRow

HOUR_MS = 3_600_000
CALENDARS: tuple[dict[str, Any], ...] = (
    {"name": "plain", "dates": ["2026-10-01", "2026-10-02"], "yearly": ["12-25"]},
    {
        "name": "everything", "description": "a, b", "month_days": [1, 31],
        "weekdays": ["sat", "sun"], "base": "plain",
        "windows": [
            {"from_time": "00:00:30", "to_time": "06:00"},
            {"from_time": "22:00", "to_time": "24:00"},
        ],
        "cron": [
            {"expression": "* * 2-4 ? * SUN", "dialect": "quartz"},
            {"expression": "* 5,6 * * *", "dialect": "unix"},
        ],
    },
    {"name": "work", "sense": "include", "weekdays": ["mon"], "dates": ["2026-09-27"]},
)  # fmt: skip


@pytest.fixture
def berlin() -> Iterator[None]:
    token = REQUEST_LOCALE.set(RequestLocale(timezone="Europe/Berlin"))
    yield
    REQUEST_LOCALE.reset(token)


@pytest.mark.parametrize("raw", CALENDARS)
def test_a_stored_calendar_comes_back_unchanged(raw: dict[str, Any]) -> None:
    name, description, spec = parse_calendar(raw)
    form = form_of_calendar(name, description, spec, version=3)
    sent = MultiDict({key: text.replace("\n", "\r\n") for key, text in form.values.items()})
    sent.popall("weekdays")
    for day in filter(None, form["weekdays"].split(",")):
        sent.add("weekdays", day)
    for row in form.exclusions:
        sent.add("cron_expression", row.expression)
        sent.add("cron_dialect", row.dialect)
    again = calendar_form_as_sent(sent)

    assert parse_calendar(calendar_of_form(again)) == (name, description, spec)
    assert again["version"] == "3"


def test_a_problem_names_the_entry_that_was_typed() -> None:
    form = form_of_calendar(*parse_calendar(CALENDARS[0]), version=1).changed(
        dates="2026-10-01; 2026-10-32\n\n2026-11-01", month_days="1, x"
    )
    with pytest.raises(InvalidInput) as unreadable:
        calendar_of_form(form)
    with pytest.raises(InvalidInput) as wrong:
        parse_calendar(calendar_of_form(form.changed(month_days="")))
    told = form.refused([*unreadable.value.problems, *wrong.value.problems])

    assert [told.entry(p) for p in told.all_problems("month_days")] == ["x"]
    assert [told.entry(p) for p in told.all_problems("dates")] == ["2026-10-32"]
    assert told.unplaced == []


def test_a_year_shows_what_a_calendar_and_its_base_take_away(berlin: None) -> None:
    plain, everything = parse_calendar(CALENDARS[0])[2], parse_calendar(CALENDARS[1])[2]
    picture = year_picture(everything, [("plain", plain)], 2026)
    assert picture is not None
    october = picture.months[9]
    taken = {day for week in october.weeks for day, may in filter(None, week) if not may}

    assert taken == {1, 2, 3, 4, 10, 11, 17, 18, 24, 25, 31}
    assert october.weeks[0][:4] == (None, None, None, (1, False))
    assert october.text == "October: removed are 1, 2, 3, 4, 10, 11, 17, 18, 24, 25, 31"


def test_a_night_of_a_clock_change_has_a_cell_for_each_hour_of_the_wall(berlin: None) -> None:
    back = clock_table(_heat(date(2026, 10, 25), hours=25)).lines[0].cells
    forward = clock_table(_heat(date(2026, 3, 29), hours=23)).lines[0].cells

    assert [cell.count for cell in back[:4]] == [1, 1, 2, 1]  # 02:00 comes twice
    assert [cell.count for cell in forward[:4]] == [1, 1, 0, 1]  # and once never
    assert len(back) == len(forward) == 24


def test_no_number_is_longer_than_its_place(berlin: None) -> None:
    """A number that is cut reads as another one."""
    told = {999: "999", 1_000: "1k", 1_734: "1.7k", 3_246: "3.2k", 9_950: "10k", 99_950: "100k",
            999_499: "999k", 999_500: "1M", 1_234_567: "1.2M"}  # fmt: skip
    assert {number: tiny_number(number) for number in told} == told
    assert all(len(tiny_number(10**n - d)) <= 4 for n in range(12) for d in range(2))


def test_jobs_of_very_different_load_can_be_told_apart(berlin: None) -> None:
    heat = _heat(date(2026, 6, 1), hours=48, rows=(1, 30, 1_000))
    levels = [line.cells[0].level for line in row_table(heat, heat.jobs, limit=9).lines]

    assert levels == sorted(set(levels))
    assert levels[-1] == 5


def _heat(day: date, *, hours: int, rows: tuple[int, ...] = ()) -> Heat:
    start = midnight_of(day)
    return Heat(
        start=start,
        end=start + hours * HOUR_MS,
        zone="Europe/Berlin",
        cell_minutes=60,
        cells=(1,) * hours,
        total=hours,
        executors=(),
        jobs=tuple(
            HeatRow(
                executor_id=1, executor_name="e", job_id=n, job_name=f"j{n}",
                count=n * hours, cells=(n,) * hours,
            )
            for n in rows
        ),
        busiest=(),
        approximate=False,
        truncated=False,
        all_paused=False,
    )  # fmt: skip
