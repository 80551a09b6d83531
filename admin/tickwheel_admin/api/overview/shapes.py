"""The shape of what needs attention."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.runs.trend import TrendStep


class AlarmOfConcernJson(TypedDict):
    """An open alarm about the same matter."""

    id: int
    kind: AlarmKind
    since: Instant | None
    acknowledged_at: Instant | None
    acknowledged_by: str | None
    assigned_to: str | None
    muted_until: Instant | None


class ConcernJson(TypedDict):
    """What somebody should look at."""

    kind: AlarmKind
    severity: Severity
    message: str
    since: Annotated[Instant | None, doc("When it began; null: unknown.")]
    last_at: Annotated[Instant | None, doc("When it last happened; null: it is a state.")]
    executor_id: int | None
    executor_name: str | None
    job_id: int | None
    job_name: str | None
    run_id: int | None
    trigger_id: int | None
    admin_id: int | None
    admin_name: str | None
    failure_group_id: Annotated[int | None, doc("The failure of several jobs that it tells.")]
    alarm: AlarmOfConcernJson | None
    alarms: Annotated[int, doc("For how many open alarms it stands.")]
    waiting_for: Annotated[str | None, doc("As of a queued run.")]
    why: str | None


class AttentionJson(TypedDict):
    """What needs attention, and what was checked."""

    items: list[ConcernJson]
    looked_at: Instant | None
    runs_since: Instant | None
    succeeded: int
    failed: int
    open_alarms: Annotated[int, doc("Counted up to 1,000.")]


class TrendBucketJson(TypedDict):
    """Ended runs that were scheduled within a time."""

    start: Instant | None
    end: Instant | None
    succeeded: int
    failed: Annotated[int, doc("Or lost.")]
    timed_out: int
    cancelled: int
    failure_rate: Annotated[float | None, doc("From 0 to 1; null: nothing ended.")]
    duration_p50_ms: Annotated[int | None, doc("Of those that succeeded.")]
    duration_p95_ms: int | None
    start_delay_p50_ms: int | None
    start_delay_p95_ms: int | None
    is_estimated: Annotated[bool, doc("Counted in a sample, and scaled up.")]


class HourOfWeekJson(TypedDict):
    """The runs of one hour of all weeks."""

    runs: int
    failures: int


class TrendsJson(TypedDict):
    """How runs went, oldest bucket first."""

    step: TrendStep
    timezone: str
    buckets: list[TrendBucketJson]
    whole: TrendBucketJson
    week: Annotated[
        list[list[HourOfWeekJson]] | None,
        doc("By day from Monday and hour of the time zone; null: of a job."),
    ]
