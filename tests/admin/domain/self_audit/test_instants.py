"""Both engines agree on when triggers fire: the one that plans, and the one that audits."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from tests.admin.domain.calendars.test_calendars import random_spec
from tests.admin.domain.schedule.clocks import TRANSITIONS
from tests.admin.domain.schedule.cron_by_definition import random_expression
from tests.support.nightly import often
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.self_audit.cron_reading import read_cron
from tickwheel_admin.domain.self_audit.instants import instants_of, left_by
from tickwheel_admin.domain.triggers.kinds.calendar_interval import (
    CalendarIntervalSpec,
    IntervalUnit,
)
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.placement import PlacedBy, WindowPlacement
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec

HOUR_MS = 3_600_000
TRIES = often(24, by_night=60)


def _planned(schedule: Schedule, begin: int, end: int) -> list[int]:
    found = []
    at = schedule.next_after(begin - 1)
    while at is not None and at < end:
        found.append(at)
        at = schedule.next_after(at)
    return found


def _audited(spec: TriggerSpec, calendar: Calendar | None, begin: int, end: int) -> list[int]:
    chain = []
    link = calendar
    while link is not None:
        chain.append(link.spec)
        link = link.base
    found = instants_of(spec, saved_at=0, begin=begin, end=end)
    return sorted(at for at, walls in found.items() if left_by(chain, walls))


def _random_spec(random: Random, zone: str, near: datetime) -> TriggerSpec:
    rules = {
        "timezone": zone,
        "gap": random.choice(list(Gap)),
        "overlap": random.choice(list(Overlap)),
        "calendar": random.choice((None, "c")),
    }
    if random.random() < 0.1:
        rules["start_at"] = int(near.timestamp() * 1000) + random.randrange(-HOUR_MS, HOUR_MS)
    first = f"{random.randrange(24):02}:{random.choice((0, 30)):02}:00"
    match random.randrange(8):
        case 0:
            return CalendarIntervalSpec(
                every=random.choice((1, 1, 2, 3)),
                unit=random.choice(list(IntervalUnit)),
                start_date=(near.date() - timedelta(days=random.choice((0, 7, 365)))).isoformat(),
                at_time=first,
                **rules,
            )
        case 1 | 2:
            begin = random.choice((0, random.randrange(80_000)))
            last = random.choice((86_399, random.randrange(begin + 1, 86_400)))
            return DailyWindowSpec(
                every_ms=1_000 * random.choice((60, 420, 1_800, 3_600, 7_200, 86_400)),
                from_time=_text(begin),
                to_time=_text(last),
                weekdays=random.choice(((), (1, 2, 3, 4, 5), (6, 7))),
                **rules,
            )
        case 3:
            every = random.choice((250_000, 90_000_000, 1_800_000))
            return FixedRateSpec(every_ms=every, timezone=zone, calendar=rules["calendar"])
        case 4:
            at = int(near.timestamp() * 1000) + random.randrange(-HOUR_MS, HOUR_MS)
            return OnceSpec(at=at, timezone=zone, calendar=rules["calendar"])
        case _:
            dialect = random.choice(list(Dialect))
            if random.random() < 0.5:  # some that are likely to fire at all near the change
                text = random.choice(("*/20 * * * *", "30 * * * *", "30 2 * * *", "0,30 0-3 * * *"))
                text = text if dialect is Dialect.UNIX else "0 " + text[:-1] + "?"
            else:
                text = random_expression(random, dialect)
            return CronSpec(expression=text, dialect=dialect.value, **rules)


def _random_window(random: Random, zone: str, near: datetime) -> WindowSpec:
    """One that starts within an hour of a time by the clocks of Greenwich."""
    length = random.choice((60, 240, 1_380))
    offset = random.randrange(0, length + 1, 5)
    is_placed = random.random() < 0.7
    shift = random.randrange(-60, 61, 5) - (offset if is_placed else length)
    begin = (near.astimezone(ZoneInfo(zone)).hour * 60 + shift) % 1_440
    placement = WindowPlacement(
        offset=offset, by=PlacedBy.LOAD, chosen_at=0, latest=length, length_ms=1, runs=3
    )
    return WindowSpec(
        from_time=_text(begin * 60),
        to_time=_text((begin + length) % 1_440 * 60),
        weekdays=random.choice(((), (), (1, 2, 3, 4, 5), (6, 7))),
        placement=placement if is_placed else None,
        timezone=zone,
        gap=random.choice(list(Gap)),
        overlap=random.choice(list(Overlap)),
        calendar=random.choice((None, None, "c")),
    )


def _text(second: int) -> str:
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


@pytest.mark.parametrize("where", TRANSITIONS)
def test_both_agree_around_changes_of_the_clocks(where: str) -> None:
    zone, day = TRANSITIONS[where]
    random = Random(where)
    fires = removed = 0
    for _ in range(TRIES):
        near = datetime.combine(day, time(), UTC) + timedelta(hours=random.randrange(-30, 31))
        spec = _random_spec(random, zone, near)
        calendar = None
        if spec.calendar is not None:
            base = Calendar(name="b", version=1, spec=random_spec(random, day))
            calendar = Calendar(
                name="c", version=1, spec=random_spec(random, day), base=random.choice((None, base))
            )
        try:
            schedule = parse(spec, saved_at=0, calendar=calendar)
        except ScheduleError:
            continue
        begin = int(near.timestamp() * 1000)
        for first in (begin, begin + HOUR_MS, (schedule.next_after(begin) or 0)):
            hour = first // HOUR_MS * HOUR_MS
            planned = _planned(schedule, hour, hour + HOUR_MS)
            assert _audited(spec, calendar, hour, hour + HOUR_MS) == planned, (spec, calendar)
            fires += len(planned)
            raw = instants_of(spec, saved_at=0, begin=hour, end=hour + HOUR_MS)
            removed += len(raw) - len(planned)
    assert fires > TRIES
    assert removed > TRIES // 6


@pytest.mark.parametrize("where", TRANSITIONS)
def test_both_agree_on_windows_around_changes_of_the_clocks(where: str) -> None:
    zone, day = TRANSITIONS[where]
    random = Random(where)
    fires = 0
    for _ in range(TRIES):
        near = datetime.combine(day, time(), UTC) + timedelta(hours=random.randrange(-30, 31))
        spec = _random_window(random, zone, near)
        calendar = None
        if spec.calendar is not None:
            calendar = Calendar(name="c", version=1, spec=random_spec(random, day))
        schedule = parse(spec, saved_at=0, calendar=calendar)
        begin = (int(near.timestamp()) - 3_600 * 3) * 1_000
        planned = _planned(schedule, begin, begin + 6 * HOUR_MS)
        assert _audited(spec, calendar, begin, begin + 6 * HOUR_MS) == planned, (spec, calendar)
        fires += len(planned)
    assert fires > 3


@pytest.mark.parametrize("dialect", Dialect)
def test_both_agree_on_random_expressions(dialect: Dialect) -> None:
    random = Random(dialect.value)
    fires = 0
    for _ in range(150):
        spec = CronSpec(expression=random_expression(random, dialect), dialect=dialect.value)
        try:
            schedule = parse(spec, saved_at=0)
        except ScheduleError:
            continue
        at = random.randrange(1_700_000_000, 2_000_000_000) * 1_000
        for first in (at, schedule.next_after(at) or at):
            hour = first // HOUR_MS * HOUR_MS
            planned = _planned(schedule, hour, hour + HOUR_MS)
            assert _audited(spec, None, hour, hour + HOUR_MS) == planned, spec
            fires += len(planned)
    assert fires > 1_000


@pytest.mark.parametrize(
    ("expression", "dialect"),
    [("*/7 0-23/2 1,15 * 1-5", "unix"), ("*/5 10 9 13 * ?", "quartz"), ("@hourly", "unix")],
)
def test_croniter_and_our_own_reading_agree(
    expression: str, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tickwheel_admin.domain.self_audit import cron_reading

    read_cron.cache_clear()
    by_croniter = read_cron(expression, dialect)
    monkeypatch.setattr(cron_reading, "_by_croniter", lambda fields, dialect, own: own)
    read_cron.cache_clear()
    assert read_cron(expression, dialect) == by_croniter
    read_cron.cache_clear()
