"""The shape of the past in answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.as_of.runs import StandingThen
from tickwheel_admin.domain.runs.run import RunState


class RunThenJson(TypedDict):
    """A run that had not ended."""

    run_id: int
    standing: Annotated[StandingThen, doc("How it stood.")]
    since: Annotated[Instant | None, doc("It stood so since then.")]
    attempt: int
    node_id: int | None
    node_name: str | None
    executor_id: int
    executor_name: str | None
    job_id: int
    job_name: str | None
    job_revision: int
    trigger_id: int | None
    scheduled_at: Instant | None
    state: Annotated[RunState, doc("How it stands now.")]
    ended_at: Instant | None


class PastFailureJson(TypedDict):
    """A run that failed in the hour before."""

    run_id: int
    state: RunState
    ended_at: Instant | None
    executor_id: int
    executor_name: str | None
    job_id: int
    job_name: str | None
    job_revision: int
    node_id: int | None
    message: str | None


class NodeThenJson(TypedDict):
    """A node that was connected."""

    node_id: int
    name: str
    executor_id: int
    executor_name: str | None
    slots: int
    in_use: int
    takes_runs: bool
    since: Annotated[Instant | None, doc("It was so since then.")]


class PauseThenJson(TypedDict):
    """A pause that held."""

    executor_id: Annotated[int | None, doc("Null: everything was paused.")]
    executor_name: str | None
    paused_at: Instant | None
    resumed_at: Instant | None


class TriggerThenJson(TypedDict):
    """A trigger of the job."""

    trigger_id: int
    version: int
    description: Annotated[str, doc("Its schedule in words.")]
    paused: Annotated[bool, doc("It was, or its job.")]
    next_fire_at: Annotated[Instant | None, doc("As of the instant.")]


class ChangeThenJson(TypedDict):
    """What changed before the instant."""

    at: Instant | None
    change: Annotated[str, doc("An action of the audit, or node.came, .changed, .gone, .dead.")]
    name: Annotated[str | None, doc("Of what was changed.")]
    object_id: int | None
    executor_id: int | None
    executor_name: str | None
    job_name: str | None
    by: Annotated[str | None, doc("Null for who does not administer the executor.")]


class RevisionThenJson(TypedDict):
    """The revision of the job that held."""

    revision: int
    made_at: Instant | None
    made_by: str


class StandingCountsJson(TypedDict):
    """Runs without shards and steps; at most 10,000 are counted."""

    planned: int
    queued: int
    parked: int
    dispatched: int
    running: int


class PictureJson(TypedDict):
    """How it was."""

    at: Instant | None
    is_kept: Annotated[bool, doc("Retention had not reached the runs of that time.")]
    counts: StandingCountsJson
    counts_are_cut: Annotated[bool, doc("There were more.")]
    runs: Annotated[list[RunThenJson], doc("At most 50; the live ones first.")]
    failures: Annotated[list[PastFailureJson], doc("Of the hour before; newest first.")]
    failure_count: int
    failures_are_cut: bool
    pauses: list[PauseThenJson]
    nodes: Annotated[list[NodeThenJson], doc("At most 50.")]
    node_count: int
    slots: int
    slots_in_use: int
    changes: Annotated[list[ChangeThenJson], doc("Of the hour before; newest first, at most 50.")]
    changes_are_cut: bool
    revision: Annotated[RevisionThenJson | None, doc("Of the job, when one was asked for.")]
    triggers: list[TriggerThenJson]


class MinuteReasonJson(TypedDict):
    """A reason."""

    code: str
    text: str


class TriggerMinuteJson(TypedDict):
    """A trigger in the minute, as it stood."""

    trigger_id: int
    version: int
    description: str
    fires: Annotated[list[Instant], doc("Its instants in the minute.")]
    without_run: Annotated[list[Instant], doc("Those that have no run.")]
    next_fire_at: Instant | None
    reasons: Annotated[
        list[MinuteReasonJson], doc("What kept the instants back, or why there are none.")
    ]


class RunMinuteJson(TypedDict):
    """A run of the minute, or one that was there."""

    run_id: int
    scheduled_at: Instant | None
    standing: Annotated[StandingThen | None, doc("At the end of the minute. Null: it had ended.")]
    since: Instant | None
    node_id: int | None
    node_name: str | None
    state: Annotated[RunState, doc("How it stands now.")]
    started_at: Instant | None
    ended_at: Instant | None
    reason: str | None
    message: str | None
    waited_for: MinuteReasonJson | None
    waited_for_runs: list[int]


MinuteOfJobJson = TypedDict(
    "MinuteOfJobJson",
    {
        "job_id": int,
        "job_name": str,
        "from": Instant | None,
        "until": Annotated[Instant | None, doc("How runs stood is told of this instant.")],
        "revision": RevisionThenJson | None,
        "triggers": list[TriggerMinuteJson],
        "runs": list[RunMinuteJson],
        "node_count": int,
        "slots": int,
        "slots_in_use": int,
    },
)

MinuteOfJobJson.__doc__ = "Why a job did or did not run in a past minute."
