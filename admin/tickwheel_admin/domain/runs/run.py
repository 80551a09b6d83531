"""A run, its states, and the only legal moves between them.

    queued ──claim──▶ dispatched ──accepted──▶ running ──result──▶ succeeded | failed
      ▲ │               │  │                     │  │             timed_out | cancelled | skipped
      │ └─▶ skipped     │  └────result overtakes─┼──┴──────────▶ (the same)
      │ └─▶ running: a whole fire, whose shards do the work; it ends with the last of them
      │ └─▶ cancelled   ├──node's lease over─────┴─────────────▶ lost
      └────refused, never seen, or another try───┘                │
      └──late result of a lost attempt ends a queued or lost run◀─┘

The moves themselves are in `domain.runs.moves`; `store.runs.runs.move_runs` writes them with a
compare-and-set on (id, state).
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

PLAIN = 0  # `shard_index` of a run that is neither cut nor a workflow's
WHOLE_FIRE = -1  # of a run that is cut into shards when it is claimed
WORKFLOW = -2  # of a run whose steps do the work


class RunState(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"  # waits for its due instant, a node, a slot, or the next try
    DISPATCHED = "dispatched"  # committed to a node, which has not confirmed it yet
    RUNNING = "running"  # the node accepted it and owes a result
    SUCCEEDED = "succeeded"
    FAILED = "failed"  # the handler raised or its result could not be kept
    TIMED_OUT = "timed_out"  # ran past its timeout
    CANCELLED = "cancelled"  # stopped by somebody
    LOST = "lost"  # its node's lease ended; it may have had effects
    SKIPPED = "skipped"  # was never started on purpose; `reason` says why


class Origin(StrEnum):
    """Why a run exists."""

    SCHEDULE = "schedule"  # a trigger fired on time
    MISFIRE = "misfire"  # a trigger's missed fires, made up for
    MANUAL = "manual"  # somebody pressed "Run now"
    API = "api"  # asked for through the API
    RETRY = "retry"  # a retry by hand of another run, see `retry_of`
    CHILD = "child"  # the end of another run asked for it, see `parent_run_id`
    STEP = "step"  # a step of the workflow whose run is `parent_run_id`
    BACKFILL = "backfill"  # a fire of the past that somebody has run now (domain.backfills)
    TRY = "try"  # somebody tries a script that is not saved; nothing follows, nothing counts it


ENDED_BY_RESULT = frozenset(
    {
        RunState.SUCCEEDED,
        RunState.FAILED,
        RunState.TIMED_OUT,
        RunState.CANCELLED,
        RunState.SKIPPED,
    }
)

MOVES: dict[RunState, frozenset[RunState]] = {
    # A queued run ends by a result only when its last attempt was lost and the result came late.
    # It is lost when that attempt was, and its next try could be nowhere.
    # It is running without a node when it is a whole fire.
    RunState.QUEUED: frozenset({RunState.DISPATCHED, RunState.RUNNING, RunState.LOST})
    | ENDED_BY_RESULT,
    RunState.DISPATCHED: frozenset({RunState.RUNNING, RunState.QUEUED, RunState.LOST})
    | ENDED_BY_RESULT,
    RunState.RUNNING: frozenset({RunState.QUEUED, RunState.LOST}) | ENDED_BY_RESULT,
    RunState.LOST: ENDED_BY_RESULT,  # a late result still counts
}

LIVE = frozenset({RunState.DISPATCHED, RunState.RUNNING})  # hold a slot on their node
FINAL = frozenset(RunState) - LIVE - {RunState.QUEUED}
FAILURES = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.LOST})  # what can be retried
PASSED_OVER = frozenset({RunState.SKIPPED, RunState.CANCELLED})  # say nothing of how a job fares

CONFIRM_MS = 5_000  # a dispatch not confirmed by then is asked about (architecture: 2.3)
TIMEOUT_GRACE_MS = 15_000  # the sweeper ends what its node did not, this long after the timeout
CHECK_MS = 600_000  # a run without a timeout is asked about this often
AFTER_LOST = "retry_after_lost"  # reason of a queued run whose last attempt was lost
CANCEL_REPEAT_MS = 2_000  # cancel is delivered again this often until the node confirms
CANCEL_CONFIRM_MS = 15_000  # a node that has not confirmed by then is said to be unable to
MAX_RETRY_AFTER_MS = 604_800_000  # longest wait that a handler can ask for
PARKED_AT = 2**53 - 1  # `due_at` of a run that waits for an earlier one; its end sets it to now
TIMEOUT = "timeout"  # cancel_reason of a run that its node did not end in time
BLOCKED = "blocked"  # reason of a parked run
# Reasons of a run that is due and was put off for a moment, so that it hides no others.
NO_HANDLER = "no_node_offers_handler"
NO_MATCHING_NODE = "no_matching_node"  # by the names and labels that its job asks for
NO_SLOT = "no_free_slot"
NO_SCRIPTS = "scripts_forbidden"  # its job has a script, and its executor forbids them
NO_SECRET = "secret_missing"  # noqa: S105 - its parameters name one that there is not
UNREADABLE_SECRET = "secret_unreadable"  # noqa: S105 - or one that this admin cannot decrypt
PUT_OFF = frozenset(
    {NO_HANDLER, NO_MATCHING_NODE, NO_SLOT, NO_SCRIPTS, NO_SECRET, UNREADABLE_SECRET}
)
PUT_OFF_MS = 5_000  # the longest such moment; then it is looked at again
CUT_OFF = "cut_off"  # reason of a live run that keeps its place although its node's lease is over
STILL_RUNNING = "cancel_unconfirmed"  # reason of a live run that its node did not end in time


# Structs, not dataclasses: hundreds are made in every batch, in a tenth of the time. They hold
# nothing that could lead back to them, so the collector of cycles need not look at them.
class Run(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """The ledger row of one fire, or of one request."""

    id: int
    executor_id: int
    job_id: int
    job_revision: int  # the configuration it was made with and keeps
    trigger_id: int | None
    origin: Origin
    scheduled_at: int  # the instant it fired for; for requests, when they shall run
    # The instant that its handler works for, when that is another one: a retry does the work of
    # the run that it repeats. None: `scheduled_at`.
    nominal_at: int | None = None
    # The instant before the one it works for, by the schedule: between the two lies the data that
    # it is about. None: it has none, as a request by hand, or its trigger follows runs.
    interval_start: int | None = None
    # Of a fixed delay: the instant of the fire whose end brought this one. None: no fire did.
    follows_at: int | None = None
    shard_index: int = PLAIN  # of a shard: from 0; else PLAIN, WHOLE_FIRE or WORKFLOW
    shard_total: int = 1
    fire_id: int | None = None  # of a shard: the run of the whole fire
    pinned_node_id: int | None = None  # runs nowhere else
    request_key: str | None = None
    requested_by: str | None = None  # name of the person or token; None for schedules
    retry_of: int | None = None
    parent_run_id: int | None = None
    # Not None: its job is not parallel, and it has not ended (store.tables.run).
    blocking_key: int | None = None
    parameters: str | None = None  # JSON object that replaces the job's; None: the job's own
    priority: int = 5  # 1..9, smaller first
    # Whose slots it takes while it is live; 0: a workflow's, which takes none. None: in no pool.
    pool_id: int | None = None
    created_at: int
    jitter_ms: int | None = None  # first due so long after scheduled_at; None: at it
    trace: str | None = None  # that it is part of (domain.runs.trace.stored); None: of none

    # What moves change.
    state: RunState
    due_at: int  # not claimed before this
    attempt: int = 0  # the fence: rises with every claim
    tries: int = 0  # accepted or lost attempts; what retries are counted by
    node_id: int | None = None  # of the last attempt
    claim_token: str | None = None  # proves the last attempt; kept for what comes late
    deadline_at: int | None = None  # when the sweeper looks at it; while queued: not started later
    dispatched_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    cancel_requested_at: int | None = None
    cancel_reason: str | None = None  # "operator", "covered" or "timeout"
    cancelled_by: str | None = None  # name of the person or token that asked for its end
    reason: str | None = None  # stable code: why it waits, was skipped, or ended so
    message: str | None = None  # error text for people
    result: str | None = None  # JSON text the handler returned
    log_lines: int = 0
    choice: str | None = None  # why the last attempt's node was chosen (domain.routing.choice)

    @property
    def is_fire(self) -> bool:
        """Whether it is a whole fire, whose shards do the work."""
        return self.shard_index == WHOLE_FIRE

    @property
    def is_workflow(self) -> bool:
        """Whether it is the run of a workflow, whose steps do the work."""
        return self.shard_index == WORKFLOW

    @property
    def has_no_node(self) -> bool:
        """Whether other runs do its work: shards, or steps."""
        return self.is_fire or self.is_workflow

    @property
    def is_part(self) -> bool:
        """Whether figures and failures leave it out: its fire or workflow tells, or nobody."""
        return self.fire_id is not None or self.origin is Origin.STEP or self.origin is Origin.TRY

    @property
    def is_parked(self) -> bool:
        """Whether it waits for an earlier run of its job."""
        return self.state is RunState.QUEUED and self.due_at == PARKED_AT

    @property
    def works_for_at(self) -> int:
        """The instant that its handler is told."""
        return self.scheduled_at if self.nominal_at is None else self.nominal_at

    @property
    def first_due_at(self) -> int:
        """When it was due first: a missed fire when it was made up for, others at their instant."""
        if self.origin is Origin.MISFIRE:
            return self.created_at
        return self.scheduled_at + (self.jitter_ms or 0)

    def is_expired(self, now: int) -> bool:
        """Whether it waits, never started, and is past its start-by deadline."""
        return (
            self.state is RunState.QUEUED
            and self.tries == 0
            and self.deadline_at is not None
            and self.deadline_at < now
        )


class Attempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An ended attempt of a run that goes on without it (table `run_attempt`)."""

    run_id: int
    attempt: int
    state: RunState
    node_id: int | None
    claim_token: str | None
    dispatched_at: int | None
    started_at: int | None
    ended_at: int | None
    reason: str | None
    message: str | None
    log_lines: int
    choice: str | None = None
    due_at: int | None = None  # when it was due to start; None: earlier versions kept it not


class Move(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One change of a run, with what must be written in the same transaction."""

    before: Run
    after: Run
    archived: Attempt | None = None  # goes to `run_attempt`, because another try follows
    unarchived: bool = False  # the attempt in `run_attempt` is the run's last one after all

    @property
    def slots(self) -> tuple[tuple[int, int], ...]:
        """(node id, change of its used slots) for the nodes concerned."""
        changes = []
        if self.before.state in LIVE and self.before.node_id is not None:
            changes.append((self.before.node_id, -1))
        if self.after.state in LIVE and self.after.node_id is not None:
            changes.append((self.after.node_id, 1))
        return tuple(changes) if sum(change for _, change in changes) else ()
