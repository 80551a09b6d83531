"""What clocks show, minute by minute: schedules by definition, to compare ours with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap

MINUTE = timedelta(minutes=1)
# A zone and a day within a week of which its clocks change.
TRANSITIONS = {
    "Berlin forward": ("Europe/Berlin", date(2026, 3, 29)),
    "Berlin back": ("Europe/Berlin", date(2026, 10, 25)),
    "New York forward": ("America/New_York", date(2026, 3, 8)),
    "New York back": ("America/New_York", date(2026, 11, 1)),
    "Lord Howe forward, 30 minutes": ("Australia/Lord_Howe", date(2026, 10, 4)),
    "Lord Howe back, 30 minutes": ("Australia/Lord_Howe", date(2026, 4, 5)),
    "Sao Paulo forward at midnight": ("America/Sao_Paulo", date(2018, 11, 4)),
    "Sao Paulo back at midnight": ("America/Sao_Paulo", date(2018, 2, 18)),
    "Cairo forward at midnight": ("Africa/Cairo", date(2024, 4, 26)),
    "Troll, two hours": ("Antarctica/Troll", date(2026, 3, 29)),
    "Nuuk forward to midnight": ("America/Nuuk", date(2026, 3, 29)),
    "Apia without 30 December": ("Pacific/Apia", date(2011, 12, 30)),
    "Casablanca before Ramadan": ("Africa/Casablanca", date(2025, 2, 23)),
    "Shanghai, never": ("Asia/Shanghai", date(2026, 3, 29)),
}


class Minute(NamedTuple):
    """What the clocks of a zone show at an instant."""

    at: int  # UTC seconds
    wall: datetime
    passes: int  # how often they show it
    is_second: bool
    skipped: tuple[datetime, ...]  # the minutes that they have just jumped over


@lru_cache(maxsize=4)
def shown(zone: ZoneInfo, start: int, end: int) -> list[Minute]:
    """Minute by minute, start <= at < end (UTC seconds)."""
    minutes = []
    expected = None
    for at in range(start, end, 60):
        moment = datetime.fromtimestamp(at, zone)
        wall = moment.replace(tzinfo=None, fold=0)
        first, second = moment.replace(fold=0).utcoffset(), moment.replace(fold=1).utcoffset()
        assert first is not None
        assert second is not None
        skipped: list[datetime] = []
        while expected is not None and expected < wall:
            skipped.append(expected)
            expected += MINUTE
        passes = 2 if first > second else 1
        minutes.append(Minute(at, wall, passes, moment.fold == 1, tuple(skipped)))
        expected = wall + MINUTE
    return minutes


def ms(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 text with its offset."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def iso(at: int | None, zone: str = "UTC") -> str | None:
    """The instant as the clocks of a zone show it."""
    return None if at is None else datetime.fromtimestamp(at / 1000, ZoneInfo(zone)).isoformat()


def around(day: date, *, days: int) -> tuple[int, int]:
    """UTC seconds from so many days before a date to so many after it."""
    noon = int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp())
    return noon - days * 86_400, noon + days * 86_400


def by_definition(
    is_wall: Callable[[datetime], bool],
    zone: ZoneInfo,
    start: int,
    end: int,
    *,
    gap: Gap,
    overlap: Overlap,
) -> list[int]:
    """The fires (epoch ms) of wall times at full minutes, start <= fire < end (UTC seconds)."""
    fires = []
    for minute in shown(zone, start, end):
        if gap is Gap.FIRE and any(is_wall(skipped) for skipped in minute.skipped):
            fires.append(minute.at * 1000)
            continue
        counts = (
            minute.passes == 1
            or overlap is Overlap.BOTH
            or (overlap is Overlap.SECOND) == minute.is_second
        )
        if counts and is_wall(minute.wall):
            fires.append(minute.at * 1000)
    return fires


def covers_the_day(is_wall: Callable[[datetime], bool]) -> bool:
    """Whether wall times come in each hour of a day on which they come at all."""
    monday = datetime(2026, 6, 1)  # noqa: DTZ001 - a wall time, of no zone
    week = [monday + n * 1440 * MINUTE for n in range(7)]
    hours = [{n // 60 for n in range(1440) if is_wall(day + n * MINUTE)} for day in week]
    return max(map(len, hours)) == 24


def nexts(schedule: Schedule, start: int, end: int) -> list[int]:
    """The fires by repeated `next_after`, start <= fire < end (seconds)."""
    found = []
    at = schedule.next_after(start * 1000 - 1)
    while at is not None and at < end * 1000:
        found.append(at)
        at = schedule.next_after(at)
    return found


def lasts(schedule: Schedule, start: int, end: int) -> list[int]:
    """The same by repeated `last_before`."""
    found = []
    at = schedule.last_before(end * 1000)
    while at is not None and at >= start * 1000:
        found.append(at)
        at = schedule.last_before(at)
    return found[::-1]
