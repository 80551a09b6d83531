"""A trigger: when a job fires."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap


class TriggerKind(StrEnum):
    """Which fields of a schedule count. A job without triggers fires by hand or API only."""

    CRON = "cron"  # expression, dialect, timezone, gap, overlap
    FIXED_RATE = "fixed_rate"  # every_ms, anchor_at
    ONCE = "once"  # at
    # every_ms after the end of the run before; the first one initial_delay_ms after it is saved
    FIXED_DELAY = "fixed_delay"
    # every `every` units at the wall time `at_time`, by calendar and not by length, from start_date
    CALENDAR_INTERVAL = "calendar_interval"
    DAILY_WINDOW = "daily_window"  # every_ms from from_time to to_time on the weekdays


class TriggerState(StrEnum):
    """Whether a trigger will fire again."""

    ACTIVE = "active"
    COMPLETE = "complete"  # it has no further fire
    ERROR = "error"  # its schedule cannot be computed; `reason` says why


class MisfirePolicy(StrEnum):
    """What happens with fires that could not be planned within the threshold."""

    FIRE_ONCE = "fire_once"  # one run now, for the latest missed instant
    SKIP = "skip"  # one skipped run that says how many were missed
    FIRE_ALL = "fire_all"  # a run for each, oldest first; beyond the latest 1,000 as with skip


class IntervalUnit(StrEnum):
    """What a calendar interval is counted in."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"  # a day that the month does not have becomes its last one
    YEAR = "year"


MISFIRE_THRESHOLD_MS = 5_000
MAX_CATCH_UP = 1_000
MIN_EVERY_MS = 100
MAX_EVERY_MS = 366 * 86_400_000
MAX_JITTER_MS = 3_600_000
MAX_REPEAT_COUNT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSpec:
    """What a person says about a trigger; stored as JSON and compared as a whole."""

    kind: TriggerKind
    expression: str | None = None  # cron
    dialect: str | None = None  # cron: a Dialect; None: unix
    timezone: str | None = None  # IANA name, None: UTC; of wall times and of the calendar's days
    gap: Gap = Gap.FIRE  # cron, calendar_interval, daily_window
    overlap: Overlap = Overlap.AUTO  # the same kinds
    every_ms: int | None = None  # fixed_rate, fixed_delay, daily_window
    anchor_at: int | None = None  # fixed_rate: fires at anchor + k * every; None: when saved
    initial_delay_ms: int | None = None  # fixed_delay: 0..366 days; None: as long as every_ms
    at: int | None = None  # once
    every: int | None = None  # calendar_interval: 1..1,000 units
    unit: IntervalUnit | None = None  # calendar_interval
    start_date: str | None = None  # calendar_interval: its first day, "2026-03-29"
    at_time: str | None = None  # calendar_interval: wall time, "09:00:00"
    from_time: str | None = None  # daily_window: wall time of its first fire
    to_time: str | None = None  # daily_window: no fire after this wall time; later than from_time
    weekdays: tuple[int, ...] = ()  # daily_window: 1 (Monday)..7, ascending; empty: every day
    start_at: int | None = None  # no fire before this instant
    end_at: int | None = None  # no fire after this instant
    repeat_count: int | None = None  # 1..MAX_REPEAT_COUNT runs, then complete; None: no end
    calendar: str | None = None  # name of the calendar that takes fires away
    jitter_ms: int = 0  # 0..MAX_JITTER_MS: runs are due up to so much after their instant
    priority: int | None = None  # 1..9 instead of the job's
    parameters: str | None = None  # JSON object over the job's parameters, key by key
    misfire: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    misfire_threshold_ms: int = MISFIRE_THRESHOLD_MS  # 1,000..86,400,000
    catch_up_limit: int = MAX_CATCH_UP  # 1..1,000, fire_all: the latest so many missed fires run


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A stored trigger."""

    id: int
    job_id: int
    executor_id: int
    bucket: int
    spec: TriggerSpec
    paused: bool
    state: TriggerState
    reason: str | None  # text for people when state is error
    next_fire_at: int | None  # None: paused (it or its job), complete or error
    last_fire_at: int | None  # last planned nominal instant
    version: int
    fires: int = 0  # runs planned so far; summaries of missed fires are none
    calendar_version: int | None = None  # with which next_fire_at was computed; None: no calendar
