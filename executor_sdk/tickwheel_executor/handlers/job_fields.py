"""Fields of a job that is declared in code: those of a job in the API (docs/api.md).

The admin checks the values: it knows time zones, calendars and which fields go together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Literal, TypedDict

Seconds = float | timedelta
Instant = datetime | str  # with an offset from UTC


class TriggerDetails(TypedDict, total=False):
    """Fields of triggers of every kind."""

    timezone: str  # IANA name, such as Asia/Shanghai; UTC for cron when omitted
    calendar: str  # name of a calendar of days on which it does not fire
    misfire: Literal["fire_once", "fire_all", "skip"]  # what to do about missed fires
    misfire_threshold_seconds: Seconds  # a fire later than this is missed
    catch_up_limit: int  # of fire_all
    gap: str  # for times that daylight saving time skips
    overlap: str  # for times that daylight saving time repeats
    start_at: Instant
    end_at: Instant
    repeat_count: int
    jitter_seconds: Seconds


class TriggerFields(TriggerDetails, total=False):
    """One of `triggers`, of any kind, as the API has it."""

    kind: Literal["cron", "fixed_rate", "once", "fixed_delay", "calendar_interval", "daily_window"]
    expression: str
    dialect: Literal["unix", "quartz", "spring"]
    every_seconds: Seconds
    anchor_at: Instant
    initial_delay_seconds: Seconds
    at: Instant
    every: int
    unit: str
    start_date: str | date
    at_time: str | time
    from_time: str | time
    to_time: str | time
    weekdays: Sequence[Any]
    priority: int
    parameters: Mapping[str, Any]


class ChildFields(TypedDict, total=False):
    """A job that runs after this one."""

    job: int  # its id
    on: Literal["success", "failure", "always"]


class JobFields(TriggerDetails, total=False):
    """A job: its own fields, and its triggers, or one trigger in short form."""

    description: str
    owner: str
    tags: Sequence[str]
    parameters: Mapping[str, Any]
    priority: int
    timeout_seconds: Seconds
    start_within_seconds: Seconds

    routing: str
    shards: int
    nodes: Sequence[str]
    selector: str
    hash_by: str

    blocking: str
    concurrency: int
    max_waiting: int
    when_cut_off: str
    hold_lost_seconds: Seconds

    retries: int
    retry_delay_seconds: Seconds
    retry_backoff: Literal["exponential", "fixed"]
    retry_max_delay_seconds: Seconds
    retry_jitter: float
    retry_on: Sequence[Literal["failed", "timed_out"]]
    retry_on_lost: bool

    children: Sequence[ChildFields]
    triggers: Sequence[TriggerFields]

    # One trigger in short form: one of these says when it fires; the rest is as above.
    cron: str  # 5 fields (unix); 6 or 7 with “?” (quartz)
    dialect: Literal["unix", "quartz", "spring"]
    every: Seconds  # at a fixed rate
    anchor_at: Instant
    at: Instant  # once


TRIGGER_DETAILS = tuple(TriggerDetails.__annotations__)
TRIGGER_FIELDS = tuple(TriggerFields.__annotations__)
JOB_FIELDS = tuple(JobFields.__annotations__)
