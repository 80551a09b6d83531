"""The shape of what the API tells of runs; comments are for programmers, `doc` for everybody."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

from tickwheel_admin.api.answers import Instant, Json, doc
from tickwheel_admin.domain.routing.choice import Why
from tickwheel_admin.domain.runs.events import EventState
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.triggers.spec import MisfirePolicy
from tickwheel_shared.protocol import Level


class RunSummaryJson(TypedDict):
    """A run in short."""

    id: int
    state: RunState
    scheduled_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    duration_ms: int | None
    progress: Annotated[float | None, doc("0 to 1, as last reported by its handler.")]


class MisfireJson(TypedDict):
    """The missed fires that a skipped run stands for."""

    count: int
    capped: Annotated[bool, doc("There were more.")]
    first_at: Instant
    last_at: Instant
    policy: Annotated[MisfirePolicy | None, doc("Of the trigger then; null in old runs.")]
    made_up: Annotated[int, doc("How many later ones were run.")]


class RetriedAsJson(TypedDict):
    """The retry that counts: one that succeeded, else a live one, else the newest."""

    run_id: int
    state: RunState


class RunJson(TypedDict):
    """A run: one fire of a trigger, or one request."""

    id: int
    job_id: int
    job_name: str
    job_revision: Annotated[int | None, doc("Null where a script is tried that is not saved.")]
    executor_id: int
    executor_name: str
    state: RunState
    reason: Annotated[str | None, doc("Why it stands or ended so; the same in all languages.")]
    message: Annotated[
        str | None,
        doc("The handler's own message, else the reason in the language of `Accept-Language`."),
    ]
    misfire: MisfireJson | None
    origin: Origin
    trigger_id: Annotated[int | None, doc("The trigger that fired, if one did.")]
    requested_by: str | None
    retry_of: Annotated[int | None, doc("The run that it retries.")]
    retried_as: RetriedAsJson | None
    resolved: Annotated[bool, doc("It failed, and a retry has succeeded.")]
    parent_run_id: Annotated[int | None, doc("The run whose end requested it.")]
    backfill_id: int | None
    trace_id: Annotated[str | None, doc("The W3C trace that it is part of, 32 hex digits.")]
    shard_index: Annotated[
        int, doc("From 0; −1 for a run with shards, −2 for the run of a workflow.")
    ]
    shard_total: int
    fire_id: Annotated[int | None, doc("Of a shard: the run that it belongs to.")]
    scheduled_at: Annotated[Instant | None, doc("The instant that it fired for.")]
    nominal_at: Annotated[
        Instant | None, doc("The instant that its handler gets as `run.scheduled_at`.")
    ]
    interval_start: Annotated[
        Instant | None, doc("Begin of the time that it is about; null: it has none.")
    ]
    interval_end: Instant | None
    due_at: Annotated[
        Instant | None, doc("The earliest next start; null while it waits for an earlier run.")
    ]
    started_at: Instant | None
    ended_at: Instant | None
    cancel_requested_at: Instant | None
    cancel_reason: Annotated[str | None, doc("`operator`, `covered` or `timeout`.")]
    cancelled_by: str | None
    attempt: Annotated[int, doc("Every claim by a node is an attempt.")]
    tries: Annotated[int, doc("Attempts that were accepted or lost.")]
    node_id: Annotated[int | None, doc("Of the last attempt.")]
    node_name: str | None
    pinned_node_id: Annotated[int | None, doc("The only node on which it may run.")]
    progress: Annotated[float | None, doc("0 to 1, as last reported by its handler.")]
    progress_text: str
    log_lines: int


class PassedOverJson(TypedDict):
    """A node that was not chosen."""

    node: str
    why: Why


class ChoiceJson(TypedDict):
    """What was weighed when a node was chosen."""

    by: Annotated[str, doc("The strategy, `chosen` or `only`.")]
    candidates: int
    used: Annotated[int, doc("Slots of the chosen node that were taken.")]
    slots: int
    passed_over: list[PassedOverJson]
    more_passed_over: int
    detail: Annotated[list[int | str], doc("Such as turn, weight or key.")]


class NodeChoiceJson(TypedDict):
    """Why a node was chosen."""

    why_node: Annotated[str | None, doc("A sentence for people.")]
    choice: ChoiceJson | None


class WaitingJson(TypedDict):
    """What a queued run waits for; nulls for any other run."""

    waiting_for: Annotated[
        str | None,
        doc(
            "`paused`, `blocked`, `not_due`, `retry`, `pinned_node`, `no_live_node`, `no_handler`,"
            " `scripts_forbidden`, `cordoned`, `draining`, `no_matching_node`,"
            " `job_busy_everywhere`, `no_free_slot`, `secret`, `pool` or `starting`."
        ),
    ]
    waiting_for_runs: list[int]
    waiting_since: Instant | None
    why_waiting: str | None
    start_by: Annotated[Instant | None, doc("It is skipped if it has not started by then.")]


class AttemptJson(NodeChoiceJson):
    """An attempt that was followed by another try."""

    attempt: int
    state: RunState
    reason: str | None
    message: str | None
    node_id: int | None
    node_name: str | None
    due_at: Instant | None
    dispatched_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    log_lines: int
    late_outcome: Annotated[
        str | None, doc("The result that came late from a node given up for lost.")
    ]
    late_message: str | None
    late_at: Instant | None


class CheckpointJson(TypedDict):
    """What the last try saved for the next one."""

    attempt: int
    saved_at: Instant | None
    data: Json


class RunDetailJson(RunJson, NodeChoiceJson, WaitingJson):
    """A run with everything but its log."""

    parameters: Annotated[Json, doc("As its handler gets them.")]
    result: Json
    attempts: Annotated[list[AttemptJson], doc("Earlier ones, oldest first.")]
    checkpoint: CheckpointJson | None
    shards: list[RunJson]
    children: Annotated[list[RunJson], doc("The runs that its end requested.")]
    job_deleted: bool
    retried_by: Annotated[list[int], doc("All its retries, and retries of retries.")]


class MatchingJson(TypedDict):
    """How many runs match."""

    runs: int
    capped: Annotated[bool, doc("There may be more.")]


class BulkJson(TypedDict):
    """What became of many runs."""

    done: int
    runs: Annotated[list[int], doc("Ids; of retries, those of the new runs.")]
    skipped: Annotated[dict[str, int], doc("How many were left alone, by reason.")]
    next: Annotated[
        str | None, doc("Repeat the request with this as `cursor`; null: all are done.")
    ]


class PurgedJson(TypedDict):
    """What a step of a purge deleted."""

    deleted: int
    next: Annotated[
        str | None, doc("Repeat the request with this as `cursor`; null: all are done.")
    ]


class LogLineJson(TypedDict):
    """A line of a log."""

    seq: Annotated[int, doc("From 1 within its attempt.")]
    at: Annotated[Instant | None, doc("By the node's clock.")]
    level: Level
    text: str


class LogJson(TypedDict):
    """Some lines of a run's log."""

    attempt: Annotated[int, doc("0: there was none yet.")]
    lines: list[LogLineJson]
    next: Annotated[int, doc("What to send as `after` to go on.")]
    more: Annotated[bool, doc("There are more lines now.")]
    ended: Annotated[bool, doc("No more will come.")]


class NewRunJson(TypedDict):
    """The run that was asked for."""

    run_id: int


class ScriptJson(TypedDict):
    """A script."""

    language: str
    source: NotRequired[Annotated[str | None, doc("Left out where a list tells of it.")]]
    sha256: Annotated[str, doc("Of the source.")]
    remark: str
    signature: str | None


class RunScriptJson(TypedDict):
    """The script that a run ran."""

    script: ScriptJson | None
    failing_line: Annotated[int | None, doc("From 1; null where it is not known.")]


class RunEventJson(TypedDict):
    """A change of a run's state."""

    seq: Annotated[int, doc("Rises with every event; the `id` to go on from.")]
    at: Annotated[Instant, doc("By the database's clock.")]
    run_id: int
    job_id: int
    executor_id: int
    attempt: int
    before: Annotated[EventState | None, doc("Its state until then; null: the run is new.")]
    state: Annotated[EventState, doc("`deleted`: its fire was taken back before it began.")]
    reason: Annotated[str | None, doc("Why it stands or ended so; the same in all languages.")]
    node_id: Annotated[int | None, doc("Of the last attempt.")]
    origin: Origin
    is_part: Annotated[bool, doc("A shard, a step of a workflow, or a try of a script.")]
