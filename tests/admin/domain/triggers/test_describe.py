"""Triggers in words: exactly right for every token of every dialect, in both languages."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.triggers.describe_more import describe_more
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
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.web.i18n import CHINESE, translations


def english(text: str) -> str:
    return text


def chinese(text: str) -> str:
    return translations(CHINESE).gettext(text)


def cron(expression: str, dialect: str | None = None) -> TriggerSpec:
    dialect = dialect or ("quartz" if len(expression.split()) > 5 else "unix")
    return CronSpec(expression=expression, dialect=dialect)


def _blocks() -> list[list[str]]:
    text = (Path(__file__).parent / "data/descriptions.txt").read_text(encoding="utf-8")
    return [block.split("\n") for block in text.strip().split("\n\n")[1:]]


@pytest.mark.parametrize(("expression", "words", "chinese_words"), _blocks())
def test_expressions_in_both_languages(expression: str, words: str, chinese_words: str) -> None:
    spec = cron(expression)
    assert (spec.describe(english), spec.describe(chinese)) == (words, chinese_words)


def test_spring_means_both_days() -> None:
    friday = cron("0 0 9 13 * FRI", "spring")
    first = cron("0 0 9 1-7 3 FRI#1", "spring")
    assert friday.describe(english) == (
        "At 09:00 on the 13th of every month when that falls on Friday"
    )
    assert first.describe(english) == (
        "At 09:00 on the 1st to the 7th of March when that falls on the first Friday of the month"
    )
    assert friday.describe(chinese) == "每月13日（且当天为星期五） 09:00"


@pytest.mark.parametrize(
    "expression", ["0 9 * *", "x y z a b", "0 ٩ * * *", "", "@reboot", "0 9 * * 1 # x"]
)
def test_what_is_refused_stands_for_itself(expression: str) -> None:
    assert cron(expression).describe(english) == expression


# --- other kinds -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every_ms", "words", "chinese_words"),
    [
        (100, "Every 0.1 seconds", "每 0.1 秒"),
        (1_000, "Every second", "每秒"),
        (5_000, "Every 5 seconds", "每 5 秒"),
        (60_000, "Every minute", "每分钟"),
        (90_000, "Every 90 seconds", "每 90 秒"),
        (7_200_000, "Every 2 hours", "每 2 小时"),
        (86_400_000, "Every day", "每天"),
        (172_800_000, "Every 2 days", "每 2 天"),
    ],
)
def test_fixed_rates_use_the_largest_fitting_unit(
    every_ms: int, words: str, chinese_words: str
) -> None:
    spec = FixedRateSpec(every_ms=every_ms)
    assert (spec.describe(english), spec.describe(chinese)) == (words, chinese_words)


def test_a_fixed_delay_follows_its_runs() -> None:
    spec = FixedDelaySpec(every_ms=300_000)
    assert spec.describe(english) == "5 minutes after each run has ended"


def test_once_names_its_instant() -> None:
    spec = OnceSpec(at=1_772_355_600_000)
    assert spec.describe(english) == "Once at 2026-03-01 09:00:00 UTC"


@pytest.mark.parametrize(
    ("every", "unit", "words", "chinese_words"),
    [
        (1, IntervalUnit.DAY, "Every day at 09:30, from 2026-01-31 on", "每天 09:30"),
        (2, IntervalUnit.WEEK, "Every 2 weeks at 09:30, counted from 2026-01-31", "每 2 周 09:30"),
        (1, IntervalUnit.MONTH, "Every month at 09:30, counted from 2026-01-31", "每月 09:30"),
        (3, IntervalUnit.YEAR, "Every 3 years at 09:30, counted from 2026-01-31", "每 3 年 09:30"),
    ],
)
def test_calendar_intervals_name_their_first_day(
    every: int, unit: IntervalUnit, words: str, chinese_words: str
) -> None:
    spec = CalendarIntervalSpec(every=every, unit=unit,
        start_date="2026-01-31", at_time="09:30:00",
    )  # fmt: skip
    assert spec.describe(english) == words
    assert spec.describe(chinese) == f"从 2026-01-31 起，{chinese_words}"


def test_daily_windows_say_their_span_where_it_matters() -> None:
    spec = DailyWindowSpec(every_ms=900_000, from_time="09:00:00", to_time="17:45:30",
        weekdays=(1, 2, 3, 4, 5),
    )  # fmt: skip
    all_day = replace(spec, from_time="00:00:00", to_time="23:59:59", weekdays=())
    assert spec.describe(english) == "Every 15 minutes from 09:00 to 17:45:30, Monday to Friday"
    assert spec.describe(chinese) == "星期一至星期五，09:00 至 17:45:30 每 15 分钟"
    assert all_day.describe(english) == "Every 15 minutes"
    assert replace(all_day, every_ms=25_200_000).describe(english) == (
        "Every 7 hours from 00:00 to 23:59:59"
    )
    assert replace(spec, weekdays=(6,)).describe(english).endswith(", on Saturdays")


def test_what_differs_from_the_default_is_told_beside() -> None:
    assert describe_more(cron("0 9 * * *"), english) == []
    spec = replace(
        cron("30 2 * * *"),
        start_at=1_772_355_600_000, end_at=1_772_355_600_500, repeat_count=1_200, calendar="h",
        jitter_ms=90_000, gap=Gap.SKIP, overlap=Overlap.SECOND,
    )  # fmt: skip
    assert describe_more(spec, english) == [
        "Not before 2026-03-01 09:00:00 UTC",
        "Not after 2026-03-01 09:00:00.500 UTC",
        "1,200 times at most",
        "Without what the calendar “h” takes away",
        "Spread over 90 seconds",
        "Times that the clocks skip do not fire",
        "Times that the clocks show twice fire the second time",
    ]
    delay = FixedDelaySpec(every_ms=1_000, initial_delay_ms=0)
    assert describe_more(delay, english) == ["First run 0 seconds after it is saved"]
    rate = FixedRateSpec(every_ms=1_000, anchor_at=0, repeat_count=1)
    assert describe_more(rate, english) == [
        "Counted from 1970-01-01 00:00:00 UTC",
        "One time only",
    ]


# --- any expression at all ---------------------------------------------------------------------


def _item(draw: random.Random, low: int, high: int) -> str:
    first, last = draw.randint(low, high), draw.randint(low, high)
    match draw.randrange(6):
        case 0:
            return f"{first}-{last}"
        case 1:
            return f"{min(first, last)}-{max(first, last)}/{draw.randint(1, 7)}"
        case 2:
            return f"*/{draw.randint(1, min(30, high))}"
        case 3:
            return f"{first}/{draw.randint(1, min(30, high))}"
        case _:
            return str(first)


def _field(draw: random.Random, low: int, high: int) -> str:
    if draw.random() < 0.35:
        return "*"
    return ",".join(_item(draw, low, high) for _ in range(draw.choice((1, 1, 1, 2, 4))))


def _expression(draw: random.Random, dialect: str) -> str:
    in_month = _field(draw, 1, 31)
    in_week = _field(draw, 1, 7)
    if draw.random() < 0.3:
        in_month = draw.choice(("L", "LW", f"L-{draw.randint(1, 20)}", f"{draw.randint(1, 28)}W"))
    if draw.random() < 0.3:
        weekday = draw.randint(1, 7)
        in_week = draw.choice((f"{weekday}L", f"{weekday}#{draw.randint(1, 5)}", "MON,6#2"))
    if dialect == "quartz":
        in_month, in_week = draw.choice(((in_month, "?"), ("?", in_week)))
    fields = [
        _field(draw, 0, 59), _field(draw, 0, 59), _field(draw, 0, 23), in_month,
        _field(draw, 1, 12), in_week,
    ]  # fmt: skip
    if dialect == "quartz" and draw.random() < 0.3:
        fields.append(draw.choice(("2026", "2026-2030", "2025/3", "2026,2028,2040")))
    return " ".join(fields[1:] if dialect == "unix" else fields)


@pytest.mark.parametrize("dialect", ["unix", "quartz", "spring"])
def test_every_valid_expression_has_words_of_the_readers_language(dialect: str) -> None:
    draw = random.Random(dialect)
    described = 0
    while described < 1_500:
        spec = cron(_expression(draw, dialect), dialect)
        try:
            parse(spec, saved_at=0)
        except ScheduleError:
            continue  # never fires, or a step that the dialect does not take
        described += 1
        words, chinese_words = spec.describe(english), spec.describe(chinese)
        assert re.match(r"(Every|At) ", words), (spec.expression, words)
        assert str(spec.expression) not in words
        assert not re.search(r"%|None|  ", words), (spec.expression, words)
        assert not re.search(r"[A-Za-z%]", chinese_words), (spec.expression, chinese_words)


def test_different_days_have_different_words() -> None:
    """No token may be lost on the way into words."""
    draw = random.Random(7)
    seen: dict[str, tuple[int, ...]] = {}
    for _ in range(1_500):
        spec = cron(f"0 0 9 {_expression(draw, 'spring').split(' ', 3)[3]}", "spring")
        try:
            schedule = parse(spec, saved_at=0)
        except ScheduleError:
            continue
        fires: list[int] = []
        at = schedule.next_after(1_767_225_600_000)
        while at is not None and len(fires) < 60:
            fires.append(at)
            at = schedule.next_after(at)
        assert seen.setdefault(spec.describe(english), tuple(fires)) == tuple(fires), spec
