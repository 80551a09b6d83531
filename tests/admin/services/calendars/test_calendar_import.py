"""Days out of CSV and iCalendar files, as people have them; and anything else, refused by line."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import UTC, date, datetime

import pytest

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.services.calendars.imports import (
    MAX_CHARS,
    CalendarFormat,
    ImportedDays,
    read_days,
)

NOW = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp() * 1000)


def csv(content: str | bytes) -> ImportedDays:
    return read_days(content, CalendarFormat.CSV, now=NOW)


def ical(*events: str) -> ImportedDays:
    """The days of events, each given by its lines."""
    body = "".join(
        f"BEGIN:VEVENT\nUID:{n}\n{lines}\nEND:VEVENT\n" for n, lines in enumerate(events)
    )
    text = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:test\n{body}END:VCALENDAR\n"
    return read_days(text, CalendarFormat.ICAL, now=NOW)


def lines(found: ImportedDays) -> list[int]:
    return [problem.line for problem in found.problems]


# --- CSV -------------------------------------------------------------------------------------


def test_dates_in_their_usual_forms() -> None:
    found = csv("2026-10-01\n2026/10/2\n20261003\n2026-1-5\n12-25\n--01-01\n2026-10-01\n")
    assert found.dates == ["2026-01-05", "2026-10-01", "2026-10-02", "2026-10-03"]
    assert found.yearly == ["01-01", "12-25"]
    assert found.problems == []


@pytest.mark.parametrize(
    "content",
    [
        "name,yearly,date\nNew Year,yes,2027-01-01\nFounding day,no,2027-03-04\n",
        "Date;Name;Yearly\n2027-01-01;New Year;1\n2027-03-04;Founding day;\n",
        "日期\t名称\t每年\n2027-01-01\tNew Year\t是\n2027-03-04\tFounding day\t否\n",
        "\ufeff# ours\n\ndate,name,yearly\n2027-01-01,New Year,TRUE\n2027-03-04,Founding day,\n",
    ],
)
def test_a_header_names_the_columns(content: str) -> None:
    plain = content.removeprefix("\ufeff")
    for given in (content, plain, plain.encode("utf-8-sig"), plain.encode("utf-16")):
        found = csv(given)
        assert (found.dates, found.yearly) == (["2027-03-04"], ["01-01"])
        assert found.names == {"01-01": "New Year", "2027-03-04": "Founding day"}


def test_lines_that_are_no_days_are_told_and_the_others_read() -> None:
    found = csv(
        "date,yearly\n2026-10-01,\nsoon,\n2026-02-30,\n01/10/2026,\n2026-10-02,maybe\n2300-01-01,\n"
    )
    assert found.dates == ["2026-10-01"]
    assert lines(found) == [3, 4, 5, 6, 7]
    assert "“01/10/2026” is not a date; write it as 2026-10-01" in found.problems[2].message


def test_problems_are_told_up_to_a_hundred() -> None:
    found = csv("x\n" * 150)
    assert (len(found.problems), found.more_problems) == (100, 50)


def test_files_that_are_no_text_or_too_long_are_refused() -> None:
    for content, code in (
        ("x" * (MAX_CHARS + 1), "import.too_long"),
        (b"\xff\x00\x01", "import.not_text"),
        (
            "\n".join(
                f"{year}-{m:02}-{d:02}"
                for year in range(2000, 2040)
                for m in range(1, 13)
                for d in range(1, 29)
            ),
            "import.too_many",
        ),
    ):
        with pytest.raises(InvalidInput) as refused:
            csv(content)
        assert refused.value.problems[0].code == code


# --- iCalendar -------------------------------------------------------------------------------


def test_an_event_counts_every_day_that_it_touches() -> None:
    found = ical(
        "DTSTART;VALUE=DATE:20261001\nDTEND;VALUE=DATE:20261004\nSUMMARY:Golden Week",
        "DTSTART;VALUE=DATE:20261225\nSUMMARY:Christmas",
        "DTSTART:20261110T230000Z\nDTEND:20261112T000000Z",
        "DTSTART;TZID=Europe/Berlin:20261120T220000\nDURATION:PT3H",
        "DTSTART;VALUE=DATE:20261201\nDTEND;VALUE=DATE:20261201",
    )
    assert found.problems == []
    assert found.dates == [
        *("2026-10-01", "2026-10-02", "2026-10-03"),
        *("2026-11-10", "2026-11-11"),
        *("2026-11-20", "2026-11-21"),
        "2026-12-01",
        "2026-12-25",
    ]
    assert found.names["2026-10-02"] == "Golden Week"


def test_recurring_events_are_expanded_for_ten_years_around_now() -> None:
    found = ical("DTSTART;VALUE=DATE:20000501\nRRULE:FREQ=YEARLY")
    assert found.dates == [f"{year}-05-01" for year in range(2016, 2037)]
    thanksgiving = ical("DTSTART;VALUE=DATE:20251127\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH")
    assert thanksgiving.dates[:3] == ["2025-11-27", "2026-11-26", "2027-11-25"]
    assert ical("DTSTART;VALUE=DATE:20260601\nRRULE:FREQ=DAILY;COUNT=3").dates == [
        "2026-06-01",
        "2026-06-02",
        "2026-06-03",
    ]
    until = ical("DTSTART;VALUE=DATE:20260601\nRRULE:FREQ=WEEKLY;UNTIL=20260615")
    assert until.dates == ["2026-06-01", "2026-06-08", "2026-06-15"]


def test_instances_that_were_moved_called_off_or_added_count_as_they_are() -> None:
    text = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:test
BEGIN:VEVENT
UID:one
DTSTART;VALUE=DATE:20260901
RRULE:FREQ=DAILY;COUNT=5
EXDATE;VALUE=DATE:20260902
RDATE;VALUE=DATE:20260910
END:VEVENT
BEGIN:VEVENT
UID:one
RECURRENCE-ID;VALUE=DATE:20260904
DTSTART;VALUE=DATE:20260920
END:VEVENT
BEGIN:VEVENT
UID:one
RECURRENCE-ID;VALUE=DATE:20260905
DTSTART;VALUE=DATE:20260905
STATUS:CANCELLED
END:VEVENT
END:VCALENDAR
"""
    found = read_days(text, CalendarFormat.ICAL, now=NOW)
    assert found.dates == ["2026-09-01", "2026-09-03", "2026-09-10", "2026-09-20"]
    assert found.problems == []


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("SUMMARY:When?", "no readable start"),
        ("DTSTART;VALUE=DATE:20261301", "no readable start"),
        ("DTSTART;VALUE=DATE:20260102\nDTEND;VALUE=DATE:20260101", "ends before it begins"),
        ("DTSTART;VALUE=DATE:20260101\nDTEND;VALUE=DATE:20290101", "longer than 366 days"),
        ("DTSTART:20260101T000000Z\nRRULE:FREQ=SECONDLY", "recurs within a day"),
        ("DTSTART;VALUE=DATE:15820101\nRRULE:FREQ=DAILY", "begin before 1900"),
        ("DTSTART;VALUE=DATE:19800101", "no day from 2016-01-01"),
        ("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=YEARLY\nRRULE:FREQ=DAILY", "more than one"),
    ],
)
def test_events_that_name_no_days_are_told_by_line(event: str, told: str) -> None:
    found = ical("DTSTART;VALUE=DATE:20260101", event)
    assert found.dates == ["2026-01-01"]
    assert lines(found) == [8]
    assert told in found.problems[0].message


def test_a_rule_that_never_matches_ends() -> None:
    found = ical("DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30")
    assert found.dates == []


@pytest.mark.parametrize("content", ["", "hello", "date\n2026-10-01", "BEGIN:VCALENDAR"])
def test_other_files_are_refused_or_empty(content: str) -> None:
    with suppress(InvalidInput):
        assert read_days(content, CalendarFormat.ICAL, now=NOW).dates == []


def test_damaged_files_are_refused_and_nothing_worse() -> None:
    sound = (
        "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:t\nBEGIN:VEVENT\nUID:1\n"
        "DTSTART;TZID=Europe/Berlin:20261001T100000\nDURATION:P1D\nRRULE:FREQ=WEEKLY;COUNT=4\n"
        "EXDATE;VALUE=DATE:20261008\nRDATE;VALUE=DATE:20261201\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    chance = random.Random(4)
    read = refused = 0
    for _ in range(600):
        text = list(sound)
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(text))
            text[place] = chance.choice(("", ":", ";", "=", "9", "T", "\n", "X", ",", "-", "\x00"))
        for kind in CalendarFormat:
            try:
                found = read_days("".join(text), kind, now=NOW)
            except InvalidInput:
                refused += 1
                continue
            read += 1
            assert [date.fromisoformat(each).isoformat() for each in found.dates] == found.dates
    assert read > 100
    assert refused > 100
