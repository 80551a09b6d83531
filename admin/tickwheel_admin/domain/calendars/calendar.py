"""A calendar: a named set of days and times that takes fires away from triggers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.schedule.cron.dialect import Dialect


class CalendarSense(StrEnum):
    """What being in the set means."""

    EXCLUDE = "exclude"  # these do not fire: holidays
    INCLUDE = "include"  # only these fire: workdays, with the Saturdays that are made up for


@dataclass(frozen=True, slots=True, kw_only=True)
class CronExclusion:
    """A cron expression whose instants are in the set; its dates and times are wall times."""

    expression: str
    dialect: Dialect = Dialect.QUARTZ


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """A part of every day, by wall time."""

    from_time: str  # "22:00:00", in it
    to_time: str  # "24:00:00" at most, no longer in it; later than from_time


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarSpec:
    """What a person says about a calendar; stored as JSON.

    A wall time is in the set when its day is in any of the four kinds of days, or its time in a
    window, or a cron exclusion matches it. An including calendar with windows *and* days keeps what
    is in both. The zone is the trigger's.
    """

    sense: CalendarSense = CalendarSense.EXCLUDE
    dates: tuple[str, ...] = ()  # "2026-10-01", ascending
    yearly: tuple[str, ...] = ()  # "12-25", ascending; "02-29" in leap years only
    month_days: tuple[int, ...] = ()  # 1..31, ascending
    weekdays: tuple[int, ...] = ()  # 1 (Monday)..7, ascending
    windows: tuple[TimeWindow, ...] = ()
    cron: tuple[CronExclusion, ...] = ()  # excluding calendars only
    base: str | None = None  # name of a calendar that takes fires away as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """A calendar with those it is based on, as schedules use it."""

    name: str  # 1..100 characters; it never changes, triggers name it
    version: int  # rises with every change of this one or of one it is based on
    spec: CalendarSpec
    base: Calendar | None = None
    changed_at: int = 0  # when this version came to be, UTC epoch ms

    def __hash__(self) -> int:
        # Schedules are looked up by their calendar, which may have thousands of dates.
        return hash((self.name, self.version))
