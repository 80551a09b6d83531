"""The shape of what the API tells of jobs."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from tickwheel_admin.api.answers import ErrorJson, Instant, Json, ProblemJson, doc
from tickwheel_admin.api.jobs.config_types import JobConfigJson
from tickwheel_admin.api.runs.shapes import RunSummaryJson
from tickwheel_admin.api.trigger_types import Trigger
from tickwheel_admin.domain.jobs.declared_job import DeclaredState
from tickwheel_admin.domain.triggers.placement import PlacedBy
from tickwheel_admin.domain.triggers.trigger import TriggerState


class JobJson(TypedDict):
    """A job: what to run, and when."""

    id: int
    executor_id: int
    executor_name: str
    revision: int
    paused: bool
    managed: Annotated[bool, doc("Code declares it, and an edit is refused.")]
    created_at: Instant | None
    updated_at: Instant | None
    next_fire_at: Instant | None
    recent_ended: Annotated[int, doc("Of its last 24 runs, without skipped ones.")]
    recent_succeeded: int
    usual_duration_ms: Annotated[int | None, doc("The median of its last 24 runs.")]
    last_run: RunSummaryJson | None
    config: JobConfigJson


class PlacementJson(TypedDict):
    """When in its window a trigger fires, and what that was chosen by."""

    start: Annotated[str, doc("Wall time in the zone of the trigger.")]
    by: Annotated[
        PlacedBy,
        doc(
            "`load`: others use the fewest slots then; `latest`: the latest start that is in time; "
            "`too_long`: the first one, because none is in time."
        ),
    ]
    chosen_at: Instant | None
    reason: Annotated[str, doc("The same in words, in English.")]
    latest: Annotated[str, doc("The latest start that was considered, a wall time.")]
    length_ms: Annotated[int, doc("What 19 of 20 runs that were measured took at most.")]
    runs: Annotated[int, doc("How many were measured.")]
    in_use: Annotated[
        float | None, doc("Slots that others use while it runs, on average; by load only.")
    ]
    in_use_at_latest: Annotated[float | None, doc("The same for `latest`.")]
    slots: Annotated[int | None, doc("That there are; by load only.")]


class TriggerJson(TypedDict):
    """A trigger of a job."""

    id: int
    state: TriggerState
    reason: str | None
    paused: bool
    next_fire_at: Instant | None
    last_fire_at: Instant | None
    fires: Annotated[int, doc("How many runs it has made.")]
    placement: Annotated[
        PlacementJson | None,
        doc("Of the kind `window` once it was placed; null: not yet, or another kind."),
    ]
    spec: Trigger


class JobDetailJson(JobJson):
    """A job with its triggers and recent runs."""

    triggers: list[TriggerJson]
    next_fires: Annotated[
        list[Instant], doc("Five; none while its executor or everything is paused.")
    ]
    executor_paused_at: Instant | None
    everything_paused_at: Instant | None
    recent_runs: list[RunSummaryJson]
    git_owner: Annotated[str | None, doc("The label of the files that manage it.")]
    schema: Annotated[Json, doc("The JSON Schema of what its handler takes, or null.")]


class JobRevisionJson(TypedDict):
    """A job, and the revision that the next change is based on."""

    id: int
    revision: int


class RevisionConfigJson(TypedDict):
    """A revision of a job."""

    id: int
    revision: int
    config: JobConfigJson


class ChangeJson(TypedDict):
    """A field that differs."""

    field: str
    before: Json
    after: Json


class RevisionJson(TypedDict):
    """Who changed what."""

    revision: int
    at: Instant | None
    by: str | None
    changes: list[ChangeJson]


class MatchingJobsJson(TypedDict):
    """How many jobs match."""

    jobs: int
    capped: Annotated[bool, doc("There may be more.")]


class BulkOfJobsJson(TypedDict):
    """What became of many jobs."""

    done: int
    jobs: Annotated[list[int], doc("Their ids.")]
    skipped: Annotated[dict[str, int], doc("How many were left alone, by reason.")]
    next: Annotated[
        str | None, doc("Repeat the request with this as `cursor`; null: all are done.")
    ]


class CreatedJobJson(TypedDict):
    """What became of one of many new jobs."""

    id: int | None
    error: ErrorJson | None


class CreatedJobsJson(TypedDict):
    """What became of many new jobs, in the order of the request."""

    created: int
    failed: int
    jobs: list[CreatedJobJson]


class ImportedJobsJson(TypedDict):
    """The new jobs, in the order of the text."""

    jobs: list[int]


class DeclaredJobJson(TypedDict):
    """A job that nodes declare in code."""

    name: str
    state: DeclaredState
    reason: str | None
    handler: str
    job_id: int | None
    job_name: str | None
    managed: bool
    differences: Annotated[list[ChangeJson], doc("What accepting it would change.")]
    problems: list[ProblemJson]
    declared_by: Annotated[str | None, doc("The name of a node.")]
    declared_at: Instant | None
    declared_now: Annotated[bool, doc("By a live node, or no node is live.")]
    renamed_from: str | None


class AcceptedJson(TypedDict):
    """The job that was made."""

    job_id: int


class KeptStateJson(TypedDict):
    """The state that a job keeps from run to run."""

    kept: Annotated[bool, doc("Whether it keeps one: its runs cannot overlap.")]
    state: dict[str, Any]
    run_id: Annotated[int | None, doc("The run that wrote it; null: a user or nobody.")]
    updated_at: Instant | None
