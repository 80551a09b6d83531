"""The shape of failure groups in answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.failures.canary import CanaryReason, CanaryState
from tickwheel_admin.domain.failures.group import GroupState


class FailureGroupJson(TypedDict):
    """Runs of an executor that failed alike."""

    id: int
    version: Annotated[int, doc("Rises with each edit of owner and notes.")]
    state: GroupState
    text: Annotated[str, doc("First line of the error; # stands for what differs each time.")]
    executor_id: int
    executor_name: str | None
    runs: Annotated[int, doc("That failed so since then, after their last try.")]
    jobs: Annotated[int, doc("Of these runs.")]
    since: Annotated[Instant | None, doc("The first of them.")]
    last_at: Instant | None
    first_run_id: int
    first_job_id: int
    first_job_name: str | None
    first_revision: Annotated[int, doc("Of that job.")]
    first_node_id: int | None
    first_node_name: str | None
    last_run_id: int
    returns: Annotated[int, doc("How often it came back after it was resolved.")]
    owner: str | None
    notes: str
    acknowledged_at: Instant | None
    acknowledged_by: str | None
    muted_until: Instant | None
    resolved_at: Instant | None
    resolved_by: Annotated[str | None, doc("Null: its jobs have succeeded.")]


class JobOfGroupJson(TypedDict):
    """What a failure group counts of one job."""

    job_id: int
    job_name: str | None
    runs: int
    last_run_id: int
    last_at: Instant | None
    is_over: Annotated[bool, doc("It has succeeded since, or is gone.")]


class RunOfGroupJson(TypedDict):
    """A run that failed so."""

    id: int
    job_id: int
    job_name: str | None
    job_revision: int
    node_id: int | None
    node_name: str | None
    scheduled_at: Instant | None
    ended_at: Instant | None


class DifferingValueJson(TypedDict):
    """A value that differs."""

    name: str
    good: Annotated[str | None, doc("Of the good run; null: there was none.")]
    failed: str | None


class PhaseLengthsJson(TypedDict):
    """How long a part of both runs took."""

    name: Annotated[str, doc("waiting, sending or running.")]
    good_ms: Annotated[int | None, doc("Null: it was not reached.")]
    failed_ms: int | None


class LineDifferenceJson(TypedDict):
    """The first line in which the logs differ."""

    number: Annotated[int, doc("From 1.")]
    good: Annotated[str | None, doc("Null: the log ends before it.")]
    failed: str | None


class RunComparisonJson(TypedDict):
    """A failed run held against the last good one of its job; what is the same is left out."""

    failed_run_id: int
    good_run_id: Annotated[int | None, doc("Null: none is known; the rest is empty.")]
    good_scheduled_at: Instant | None
    failed_revision: int
    good_revision: int | None
    parameters: Annotated[list[DifferingValueJson], doc("At most 50.")]
    node: DifferingValueJson | None
    sdk: DifferingValueJson | None
    labels: Annotated[list[DifferingValueJson], doc("Of the nodes; at most 50.")]
    fields: Annotated[list[str], doc("Of the job, that the revisions between them changed.")]
    phases: list[PhaseLengthsJson]
    line: Annotated[LineDifferenceJson | None, doc("Of the first 1,000 lines of both logs.")]


class CanaryRetryJson(TypedDict):
    """Runs of a failure group that are done again in growing waves."""

    id: int
    state: CanaryState
    reason: Annotated[CanaryReason | None, doc("Why it was stopped.")]
    started_at: Instant | None
    started_by: str
    stopped_by: str | None
    ended_at: Instant | None
    wave: Annotated[int, doc("Runs of the last wave.")]
    open_runs: Annotated[list[int], doc("The new runs of the last wave that have not ended.")]
    retried: int
    succeeded: int
    failed: Annotated[int, doc("Ended in any other way.")]
    left_out: Annotated[int, doc("Could not be done again, or somebody was faster.")]


class CanaryRetryStartedJson(TypedDict):
    """The canary retry that has begun."""

    id: int


class FailureGroupDetailJson(FailureGroupJson):
    """A failure group with its jobs and its newest runs."""

    jobs_failed: Annotated[list[JobOfGroupJson], doc("Those that failed last first; at most 100.")]
    canary_retry: Annotated[CanaryRetryJson | None, doc("The newest one.")]
    newest_runs: Annotated[list[RunOfGroupJson], doc("Newest first; at most 20.")]
