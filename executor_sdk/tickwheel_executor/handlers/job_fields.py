"""Fields of a job that is declared in code: those of a job in the API (docs/api.md).

The admin checks the values: it knows time zones, calendars and which fields go together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Literal, Required, TypedDict

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

    kind: Literal[
        "cron", "fixed_rate", "once", "fixed_delay", "calendar_interval", "daily_window", "window"
    ]
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
    done_by: str | time
    weekdays: Sequence[Any]
    priority: int
    parameters: Mapping[str, Any]


class ChildFields(TypedDict, total=False):
    """A job that runs after this one."""

    job: int  # its id
    on: Literal["success", "failure", "always"]


class AlarmLimits(TypedDict, total=False):
    """From when on something is the matter; docs/alarms.md says which kind has which of these."""

    count: int
    seconds: Seconds
    factor: float
    by: str | time  # a time of the day
    timezone: str
    calendar: str


class AlarmQuiet(TypedDict, total=False):
    """When nothing is told: what happens then is told together at their end."""

    from_time: str | time
    to_time: str | time
    calendar: str
    timezone: str
    pierced_by_errors: bool


class AlarmFields(TypedDict, total=False):
    """One of `alarms`: a rule about this job."""

    kind: Required[
        Literal[
            "failed",
            "try_failed",
            "timed_out",
            "lost",
            "skipped",
            "started_late",
            "slow",
            "deadline_missed",
            "deadline_warning",
            "coverage_gap",
            "failing_streak",
            "retry_failed",
            "last_failed",
            "failure_rate",
            "trigger_error",
            "approval_waits",
        ]
    ]
    name: str  # unique within the job; its kind when omitted
    severity: Literal["error", "warning"]
    channels: Sequence[str]  # names of channels
    limits: AlarmLimits
    own_text: str
    quiet: AlarmQuiet
    repeat_every_seconds: Seconds
    escalate_after_seconds: Seconds
    escalate_to: Sequence[str]  # names of channels
    tell_recovery: bool
    group_window_seconds: Seconds
    additional: bool
    enabled: bool


class RoutingFields(TypedDict, total=False):
    """Where a run takes place."""

    routing: str
    shards: int
    nodes: Sequence[str]
    selector: str
    hash_by: str


class PoolFields(TypedDict, total=False):
    """The limit across jobs that a run counts for."""

    pool: str  # its name
    pool_slots: int  # that each run takes


class RetryFields(TypedDict, total=False):
    """When a run is tried again."""

    retries: int
    retry_delay_seconds: Seconds
    retry_backoff: Literal["exponential", "fixed"]
    retry_max_delay_seconds: Seconds
    retry_jitter: float
    retry_on: Sequence[Literal["failed", "timed_out"]]
    retry_on_lost: bool


class WorkflowFields(TriggerDetails, total=False):
    """A job, but for what a workflow leaves to its steps."""

    description: str
    owner: str
    tags: Sequence[str]
    parameters: Mapping[str, Any]
    priority: int
    timeout_seconds: Seconds
    start_within_seconds: Seconds

    blocking: str
    concurrency: int
    max_waiting: int
    when_cut_off: str
    hold_lost_seconds: Seconds

    children: Sequence[ChildFields]
    alarms: Sequence[AlarmFields]
    triggers: Sequence[TriggerFields]

    # One trigger in short form: one of these says when it fires; the rest is as above.
    cron: str  # 5 fields (unix); 6 or 7 with “?” (quartz)
    dialect: Literal["unix", "quartz", "spring"]
    every: Seconds  # at a fixed rate
    anchor_at: Instant
    at: Instant  # once


class JobFields(RoutingFields, PoolFields, RetryFields, WorkflowFields, total=False):
    """A job: its own fields, and its triggers, or one trigger in short form."""


TRIGGER_DETAILS = tuple(TriggerDetails.__annotations__)
TRIGGER_FIELDS = tuple(TriggerFields.__annotations__)
ALARM_FIELDS = tuple(AlarmFields.__annotations__)
PARTS_OF_ALARMS = {
    "limits": tuple(AlarmLimits.__annotations__),
    "quiet": tuple(AlarmQuiet.__annotations__),
}
WORKFLOW_FIELDS = tuple(WorkflowFields.__annotations__)
JOB_FIELDS = tuple(JobFields.__annotations__)
