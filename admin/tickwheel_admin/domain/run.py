"""A run, its states, and the only legal moves between them.

    queued ──claim──▶ dispatched ──accepted──▶ running ──result──▶ succeeded | failed
      ▲ │               │  │                     │  │             timed_out | cancelled
      │ └─▶ skipped     │  └────result overtakes─┼──┴──────────▶ (the same)
      │ └─▶ cancelled   ├──node's lease over─────┴─────────────▶ lost
      └────refused, never seen, or another try───┘                │
      └──late result of a lost attempt ends a queued or lost run◀─┘

Every function here returns a `Move`; `store.runs.move_runs` writes it with a compare-and-set on
(id, state, attempt).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from tickwheel_shared.protocol import Outcome


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


ENDED_BY_RESULT = frozenset(
    {RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT, RunState.CANCELLED}
)

MOVES: dict[RunState, frozenset[RunState]] = {
    # A queued run ends by a result only when its last attempt was lost and the result came late.
    RunState.QUEUED: frozenset({RunState.DISPATCHED, RunState.SKIPPED}) | ENDED_BY_RESULT,
    RunState.DISPATCHED: frozenset({RunState.RUNNING, RunState.QUEUED, RunState.LOST})
    | ENDED_BY_RESULT,
    RunState.RUNNING: frozenset({RunState.QUEUED, RunState.LOST}) | ENDED_BY_RESULT,
    RunState.LOST: ENDED_BY_RESULT,  # a late result still counts
}

LIVE = frozenset({RunState.DISPATCHED, RunState.RUNNING})  # hold a slot on their node
FINAL = frozenset(RunState) - LIVE - {RunState.QUEUED}
FAILURES = frozenset({RunState.FAILED, RunState.TIMED_OUT, RunState.LOST})  # what can be retried

CONFIRM_MS = 5_000  # a dispatch not confirmed by then is asked about (architecture: 2.3)
TIMEOUT_GRACE_MS = 15_000  # the sweeper ends what its node did not, this long after the timeout
CHECK_MS = 600_000  # a run without a timeout is asked about this often
AFTER_LOST = "retry_after_lost"  # reason of a queued run whose last attempt was lost
CANCEL_REPEAT_MS = 2_000  # cancel is delivered again this often until the node confirms


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The ledger row of one fire, or of one request."""

    id: int
    executor_id: int
    job_id: int
    job_revision: int  # the configuration it was made with and keeps
    trigger_id: int | None
    origin: Origin
    scheduled_at: int  # the nominal instant; for requests, when it was asked for
    shard_index: int = 0
    request_key: str | None = None
    requested_by: str | None = None  # name of the person or token; None for schedules
    retry_of: int | None = None
    parameters: str | None = None  # JSON object that replaces the job's; None: the job's own
    priority: int = 5  # 1..9, smaller first
    created_at: int

    # What moves change.
    state: RunState
    due_at: int  # not claimed before this
    attempt: int = 0  # the fence: rises with every claim
    tries: int = 0  # accepted or lost attempts; what retries are counted by
    node_id: int | None = None  # of the last attempt
    claim_token: str | None = None  # proves the last attempt; kept for what comes late
    deadline_at: int | None = None  # when the sweeper looks at it; None while queued or final
    dispatched_at: int | None = None
    started_at: int | None = None
    ended_at: int | None = None
    cancel_requested_at: int | None = None
    reason: str | None = None  # stable code: why it waits, was skipped, or ended so
    message: str | None = None  # error text for people
    result: str | None = None  # JSON text the handler returned
    log_lines: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how soon a run is tried again."""

    retries: int = 0  # 0..100 further tries
    delay_ms: int = 10_000  # 0..86,400,000 before the first retry
    factor: float = 2.0  # 1 for fixed delays, up to 10; each further delay is this times longer
    max_delay_ms: int = 3_600_000
    on_lost: bool = True  # whether a lost attempt, which may have had effects, is tried again

    def delay_after(self, tries: int) -> int:
        """Milliseconds to wait after the `tries`-th try (from 1) ended."""
        # factor ** 99 overflows no float, but the product must be capped before it becomes an int.
        return int(min(self.delay_ms * self.factor ** (tries - 1), self.max_delay_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
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


def claimed(run: Run, *, node_id: int, token: str, now: int) -> Move:
    """queued → dispatched: a node was chosen; committed before anything is sent."""
    after = replace(
        run,
        state=RunState.DISPATCHED,
        attempt=run.attempt + 1,
        node_id=node_id,
        claim_token=token,
        dispatched_at=now,
        started_at=None,
        deadline_at=now + CONFIRM_MS,
        ended_at=None,
        reason=None,
        message=None,
        result=None,
        log_lines=0,
    )
    return Move(before=run, after=after)


def accepted(run: Run, *, timeout_ms: int | None, now: int) -> Move:
    """dispatched → running: the node confirmed the attempt; this is a try."""
    # A cancel that is already wanted must not wait for the timeout.
    deadline_at = running_deadline(now, timeout_ms) if run.cancel_requested_at is None else now
    after = replace(
        run,
        state=RunState.RUNNING,
        tries=run.tries + 1,
        started_at=now,
        deadline_at=deadline_at,
    )
    return Move(before=run, after=after)


def running_deadline(started_at: int, timeout_ms: int | None) -> int:
    """When the sweeper must look at a running attempt at the latest."""
    return started_at + (CHECK_MS if timeout_ms is None else timeout_ms + TIMEOUT_GRACE_MS)


def handed_back(run: Run, *, reason: str, now: int, delay_ms: int = 0) -> Move:
    """dispatched → queued: refused or never seen; costs no try. A wanted cancel ends it instead."""
    if run.cancel_requested_at is not None:
        return cancelled_while_queued(run, now=now)
    after = replace(
        run,
        state=RunState.QUEUED,
        due_at=max(run.due_at, now + delay_ms),
        deadline_at=None,
        claim_token=None,  # whatever this attempt may still say does not count
        reason=reason,
    )
    return Move(before=run, after=after)


def ended(
    run: Run,
    outcome: Outcome,
    policy: RetryPolicy,
    *,
    duration_ms: int,
    result: str | None,
    message: str | None,
    log_lines: int,
    now: int,
) -> Move:
    """A result came: terminal, or queued for the next try."""
    # A late result's start may be unknown; the admin's own instants bound what the node says.
    started_at = run.started_at if run.started_at is not None else max(now - duration_ms, 0)
    done = replace(
        run,
        state=RunState(outcome.value),
        # When the result overtook "accepted" the try is counted here.
        tries=run.tries + (1 if run.state is RunState.DISPATCHED else 0),
        started_at=started_at,
        ended_at=min(now, started_at + duration_ms),
        deadline_at=None,
        result=result,
        message=message,
        log_lines=log_lines,
        reason=None,
    )
    return _tried_again(run, done, policy, now=now)


def timed_out(run: Run, policy: RetryPolicy, *, now: int) -> Move:
    """The sweeper ends an attempt that its node did not end in time."""
    done = replace(
        run,
        state=RunState.TIMED_OUT,
        ended_at=now,
        deadline_at=None,
        reason="timeout_not_enforced",
        message="The node did not end the attempt in time; it may still be running there.",
    )
    return _tried_again(run, done, policy, now=now)


def lost(run: Run, policy: RetryPolicy, *, now: int) -> Move:
    """The node's lease is over; a late result may still end the run."""
    done = replace(
        run,
        state=RunState.LOST,
        tries=run.tries + (1 if run.state is RunState.DISPATCHED else 0),
        ended_at=now,
        deadline_at=None,
        reason="node_lost",
        message="The node's lease ended before a result came; the attempt may have had effects.",
    )
    return _tried_again(run, done, policy, now=now)


def postponed(run: Run, *, reason: str, until: int) -> Move:
    """queued → queued: it cannot be placed now and must not stand in the way of others."""
    return Move(before=run, after=replace(run, due_at=until, reason=reason))


def cancelled_while_queued(run: Run, *, now: int) -> Move:
    """queued → cancelled, or a dispatched one that its node says it never started."""
    after = replace(
        run,
        state=RunState.CANCELLED,
        ended_at=now,
        deadline_at=None,
        claim_token=None,
        reason="cancelled",
        cancel_requested_at=run.cancel_requested_at or now,
    )
    return Move(before=run, after=after)


def may_end_late(run: Run) -> bool:
    """Whether a result of the run's last attempt still ends it although the node was lost."""
    return run.state is RunState.LOST or (run.state is RunState.QUEUED and run.reason == AFTER_LOST)


def _tried_again(before: Run, done: Run, policy: RetryPolicy, *, now: int) -> Move:
    """To `done`, or back to queued for another try when the policy asks for one."""
    late = before.state not in LIVE  # a lost attempt's result came after all
    if (
        before.state in FINAL  # it has ended, and what follows from that has happened
        or done.state not in FAILURES
        or done.tries > policy.retries
        or done.cancel_requested_at is not None
        or (done.state is RunState.LOST and not policy.on_lost)
    ):
        return Move(before=before, after=done, unarchived=late)
    due_at = now + policy.delay_after(done.tries)
    if late:  # the try that its loss brought about, but no sooner after the failure than asked for
        ended_at = now if done.ended_at is None else done.ended_at
        due_at = max(before.due_at, ended_at + policy.delay_after(done.tries))
    after = replace(
        done, state=RunState.QUEUED, due_at=due_at, reason=f"retry_after_{done.state.value}"
    )
    return Move(before=before, after=after, archived=_attempt_of(done))


def _attempt_of(run: Run) -> Attempt:
    return Attempt(
        run_id=run.id,
        attempt=run.attempt,
        state=run.state,
        node_id=run.node_id,
        claim_token=run.claim_token,
        dispatched_at=run.dispatched_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        reason=run.reason,
        message=run.message,
        log_lines=run.log_lines,
    )
