"""The shape of what-if requests and answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.api.calendars.shapes import CalendarConfigJson
from tickwheel_admin.api.jobs.config_types import JobConfigJson
from tickwheel_admin.domain.pools.pool import MAX_SLOTS as MAX_POOL_SLOTS
from tickwheel_admin.services.forecast.proposed import MAX_SLOTS
from tickwheel_admin.web.input_fields import MAX_ID

_Id = Annotated[int, Meta(ge=1, le=MAX_ID)]


class JobWhatIf(Struct, kw_only=True, tag_field="kind", tag="job"):
    """A job gets this configuration."""

    job_id: _Id
    config: JobConfigJson


class NewJobWhatIf(Struct, kw_only=True, tag_field="kind", tag="new_job"):
    """A job with this configuration is added."""

    executor_id: _Id
    config: JobConfigJson


class JobPauseWhatIf(Struct, kw_only=True, tag_field="kind", tag="job_pause"):
    """A job is paused or resumed."""

    job_id: _Id
    paused: bool


class ExecutorPauseWhatIf(Struct, kw_only=True, tag_field="kind", tag="executor_pause"):
    """An executor is paused or resumed."""

    executor_id: _Id
    paused: bool


class NodeWhatIf(Struct, kw_only=True, tag_field="kind", tag="node"):
    """A node is drained, or gets other slots."""

    node_id: _Id
    drain: bool | UnsetType | None = UNSET
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS)] | UnsetType | None = UNSET


class PoolWhatIf(Struct, kw_only=True, tag_field="kind", tag="pool"):
    """A pool gets other slots; 0 closes it."""

    pool_id: _Id
    slots: Annotated[int, Meta(ge=0, le=MAX_POOL_SLOTS)]


class CalendarWhatIf(Struct, kw_only=True, tag_field="kind", tag="calendar"):
    """A calendar, found by its name, gets these days."""

    calendar: CalendarConfigJson


ChangeWhatIf = (
    JobWhatIf
    | NewJobWhatIf
    | JobPauseWhatIf
    | ExecutorPauseWhatIf
    | NodeWhatIf
    | PoolWhatIf
    | CalendarWhatIf
)


class ForecastHourJson(TypedDict):
    """One hour of a forecast."""

    at: Instant | None
    fires: int
    waiting: Annotated[int, doc("Most runs that wait for a slot at once.")]
    busy: Annotated[int, doc("Most slots in use at once.")]
    busy_share: Annotated[float, doc("0 to 1: of all slots, on average.")]
    full_seconds: Annotated[float, doc("How long no slot is free.")]
    start_delay_p50_seconds: float | None
    start_delay_p95_seconds: float | None
    late: Annotated[int, doc("Runs due in this hour that start more than a minute late.")]
    skipped: Annotated[int, doc("Fires that do not run.")]


class ForecastSideJson(TypedDict):
    """What would come, with or without the changes."""

    slots: int
    runs: int
    fires: int
    start_delay_p50_seconds: float | None
    start_delay_p95_seconds: float | None
    late: Annotated[int, doc("Runs that start more than a minute late.")]
    full_seconds: Annotated[float, doc("How long no slot is free.")]
    most_waiting: Annotated[int, doc("Most runs that wait for a slot at once.")]
    skipped: Annotated[dict[str, int], doc("Fires that do not run, by reason.")]
    failed: int
    missed_deadlines: int
    slow_start_delay_p95_seconds: Annotated[
        float | None, doc("If each run took as long as the slowest of twenty of its job.")
    ]
    slow_missed_deadlines: int
    slow_skipped: int
    hours: list[ForecastHourJson]


class ForecastJobJson(TypedDict):
    """One job in a forecast."""

    runs: int
    started: int
    waiting: Annotated[int, doc("Due, and not started at the end.")]
    skipped: int
    failed: int
    start_delay_p50_seconds: float | None
    start_delay_p95_seconds: float | None
    missed_deadlines: Annotated[list[Instant], doc("By which it has not succeeded.")]


class JobDifferenceJson(TypedDict):
    """A job that the changes are about, or make a difference to."""

    job_id: Annotated[int | None, doc("null: the job is one that the changes add.")]
    job_name: str | None
    before: ForecastJobJson | None
    after: ForecastJobJson | None
    fires_gone: int
    fires_new: int
    first_gone: Annotated[list[Instant], doc("Instants; at most 20.")]
    first_new: Annotated[list[Instant], doc("Instants; at most 20.")]
    starves: Annotated[bool, doc("Other jobs asked for runs of it, and none does any more.")]
    measured_runs: Annotated[int, doc("What its durations are drawn from.")]
    duration_p50_seconds: Annotated[float | None, doc("Of these runs.")]
    duration_p95_seconds: float | None


class ForecastBasisJson(TypedDict):
    """What a forecast rests on."""

    jobs: int
    measured_jobs: int
    measured_runs: Annotated[int, doc("At most the last 50 of each job.")]
    measured_since: Annotated[Instant | None, doc("The first of those runs.")]
    assumed_jobs: Annotated[int, doc("Of which no run was measured.")]
    assumed_seconds: Annotated[float, doc("How long their runs are taken to be.")]
    workflows: Annotated[int, doc("Whose steps are simulated.")]
    assumed_workflows: Annotated[
        int, doc("Of them: no run says which conditions hold, and how long lists are.")
    ]
    nodes: int
    open_runs: Annotated[int, doc("That were queued or running when it was made.")]
    more_open_runs: Annotated[bool, doc("More are queued than it looked at.")]
    executors: list[int]
    executors_left_out: Annotated[int, doc("That share pools or children; you may not see them.")]


class SpreadJson(TypedDict):
    """A minute at which a job would find more free slots."""

    job_id: Annotated[int | None, doc("null: the job is one that the changes add.")]
    job_name: str | None
    trigger: Annotated[int, doc("Its place among the job's triggers, from 0.")]
    minute: int
    new_minute: int
    expression: Annotated[str, doc("With the new minute.")]
    busy_share: Annotated[float, doc("0 to 1: of the slots, by others while it runs.")]
    new_busy_share: float


class WhatIfJson(TypedDict):
    """The next hours without the changes, and with them."""

    start: Instant | None
    end: Instant | None
    truncated: Annotated[bool, doc("It ends early: there are more runs than are simulated.")]
    fires_gone: int
    fires_new: int
    before: ForecastSideJson
    after: ForecastSideJson
    jobs: list[JobDifferenceJson]
    more_jobs: Annotated[int, doc("With a difference, that are not named.")]
    spread: list[SpreadJson]
    with_spread: Annotated[
        ForecastSideJson | None, doc("With the changes, and all of these minutes as well.")
    ]
    basis: ForecastBasisJson
