"""The moves of a run: what each changes, and whether another try follows.

Every function returns a `Move`; none of them writes anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import (
    AFTER_LOST,
    BLOCKED,
    CHECK_MS,
    CONFIRM_MS,
    CUT_OFF,
    FAILURES,
    FINAL,
    LIVE,
    MAX_RETRY_AFTER_MS,
    PARKED_AT,
    TIMEOUT,
    TIMEOUT_GRACE_MS,
    Attempt,
    Move,
    Run,
    RunState,
)
from tickwheel_shared.protocol import Outcome


def claimed(run: Run, *, node_id: int, token: str, now: int, choice: str | None = None) -> Move:
    """queued → dispatched: a node was chosen; committed before anything is sent."""
    after = replace(
        run,
        state=RunState.DISPATCHED,
        due_at=min(run.due_at, now),  # it may have been parked
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
        choice=choice,
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
        reason=None,  # it may have been held for a node that was away
    )
    return Move(before=run, after=after)


def running_deadline(started_at: int, timeout_ms: int | None) -> int:
    """When the sweeper must look at a running attempt at the latest."""
    return started_at + (CHECK_MS if timeout_ms is None else timeout_ms + TIMEOUT_GRACE_MS)


def handed_back(
    run: Run, *, reason: str, now: int, delay_ms: int = 0, start_by: int | None = None
) -> Move:
    """dispatched → queued: refused or never seen; costs no try. A wanted cancel ends it instead."""
    if run.cancel_requested_at is not None:
        return cancelled_while_queued(run, now=now)
    after = replace(
        run,
        state=RunState.QUEUED,
        due_at=max(run.due_at, now + delay_ms),
        deadline_at=start_by,
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
    retry_after_ms: int | None = None,
    final: bool = False,
) -> Move:
    """A result came: terminal, or queued for the next try.

    Args:
        retry_after_ms: the handler asks for its next try after this long, if it has one left.
        final: the handler says that another try would not help.
    """
    if outcome is Outcome.CUT_OFF:
        return lost(run, policy, now=now, log_lines=log_lines)
    # A late result's start may be unknown; the admin's own instants bound what the node says.
    started_at = run.started_at if run.started_at is not None else max(now - duration_ms, 0)
    done = replace(
        run,
        state=RunState(outcome.value),
        due_at=_was_due_at(run, now=now),  # its next try may have been parked
        # When the result overtook "accepted" the try is counted here.
        tries=run.tries + (1 if run.state is RunState.DISPATCHED else 0),
        started_at=started_at,
        ended_at=min(now, started_at + duration_ms),
        deadline_at=None,
        result=result,
        message=message,
        log_lines=log_lines,
        reason=_REASONS.get(outcome),
    )
    if outcome is Outcome.CANCELLED and run.cancel_reason is not None:
        done = replace(done, reason=_CANCELLED_FOR.get(run.cancel_reason, "cancelled"))
    return _tried_again(run, done, policy, now=now, retry_after_ms=retry_after_ms, final=final)


def having_spawned(run: Run, count: int) -> Run:
    """A run of a workflow's step that has succeeded, and hands items over."""
    return replace(run, reason=SPAWNED, message=f"Items spawned: {count:,}.")


SPAWNED = "spawned"  # reason: it has succeeded, and its items follow
_REASONS = {Outcome.SKIPPED: "by_handler"}
_CANCELLED_FOR = {"covered": "covered"}


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


def lost(
    run: Run, policy: RetryPolicy, *, now: int, reason: str = "node_lost", log_lines: int = 0
) -> Move:
    """The node's lease is over; a late result may still end the run."""
    done = replace(
        run,
        state=RunState.LOST,
        tries=run.tries + (1 if run.state is RunState.DISPATCHED else 0),
        ended_at=now,
        deadline_at=None,
        reason=reason,
        log_lines=max(run.log_lines, log_lines),
        message="The node's lease ended before a result came; the attempt may have had effects.",
    )
    return _tried_again(run, done, policy, now=now)


def postponed(run: Run, *, reason: str, until: int) -> Move:
    """queued → queued: it cannot be placed now and must not stand in the way of others."""
    # A lost attempt's late result still ends the run while its next try has not begun.
    kept = reason if run.reason != AFTER_LOST else run.reason
    return Move(before=run, after=replace(run, due_at=until, reason=kept))


def parked(run: Run) -> Move:
    """queued → queued: it waits until an earlier run of its job has ended."""
    return postponed(run, reason=BLOCKED, until=PARKED_AT)


def unparked(run: Run, *, now: int) -> Move:
    """queued → queued: an earlier run of its job has ended, so it may be claimed."""
    kept = None if run.reason == BLOCKED else run.reason
    return Move(before=run, after=replace(run, due_at=now, reason=kept))


def skipped(run: Run, *, reason: str, now: int, message: str | None = None) -> Move:
    """queued → skipped: it is not started, on purpose."""
    after = replace(
        run,
        state=RunState.SKIPPED,
        due_at=_was_due_at(run, now=now),
        ended_at=now,
        deadline_at=None,
        claim_token=None,
        reason=reason,
        message=message,
    )
    return Move(before=run, after=after)


def node_gone(run: Run, *, now: int) -> Move:
    """A queued run whose one node is gone: skipped, or failed when it has been tried there.

    Its last attempt was lost: so is the run, and a late result of that attempt still ends it.
    """
    done = skipped(run, reason="node_gone", now=now).after
    if run.tries:
        message = "Its node is gone, and it may run nowhere else."
        done = replace(done, state=RunState.FAILED, message=message)
    if run.reason == AFTER_LOST:
        done = replace(done, state=RunState.LOST, claim_token=run.claim_token)
    return Move(before=run, after=done)


def expanded(run: Run, *, shards: int, now: int) -> Move:
    """queued → running: a whole fire, whose shards were written in the same transaction."""
    after = replace(
        run,
        state=RunState.RUNNING,
        due_at=min(run.due_at, now),  # it may have been parked
        attempt=run.attempt + 1,
        tries=1,
        shard_total=shards,
        dispatched_at=now,
        started_at=now,
        deadline_at=now + CHECK_MS,
        reason=None,
    )
    return Move(before=run, after=after)


def fire_ended(run: Run, counts: Mapping[RunState, int], *, now: int) -> Move:
    """A whole fire ends with its last shard: by the worst of them, and their number by state."""
    failed = sum(counts.get(state, 0) for state in FAILURES)
    if failed:
        state = RunState.FAILED
    elif counts.get(RunState.CANCELLED):
        state = RunState.CANCELLED
    elif counts.get(RunState.SUCCEEDED):
        state = RunState.SUCCEEDED
    else:
        state = RunState.SKIPPED
    told = {each.value: count for each, count in sorted(counts.items()) if count}
    after = replace(
        run,
        state=state,
        ended_at=now,
        deadline_at=None,
        reason="shards",
        message=f"{failed} of {run.shard_total} shards failed." if failed else None,
        result=msgspec.json.encode({"shards": told}).decode(),
    )
    return Move(before=run, after=after)


def stop_wanted(run: Run, *, reason: str, now: int, by: str | None = None) -> Move:
    """A live run is to end: kept in the database and delivered until its node confirms (G14).

    Args:
        by: name of the person or token that asked for it.
    """
    after = replace(
        run, cancel_requested_at=now, cancel_reason=reason, cancelled_by=by, deadline_at=now
    )
    return Move(before=run, after=after)


def held(run: Run, *, until: int) -> Move:
    """A live run whose node's lease is over keeps its place: nothing may start beside it."""
    return Move(before=run, after=replace(run, reason=CUT_OFF, deadline_at=until))


def back_again(run: Run, *, timeout_ms: int | None, now: int) -> Move:
    """The node of a held run is back, and still runs it."""
    started_at = now if run.started_at is None else run.started_at
    deadline_at = now if run.cancel_requested_at else running_deadline(started_at, timeout_ms)
    return Move(before=run, after=replace(run, reason=None, deadline_at=deadline_at))


def released(run: Run, *, now: int) -> Move:
    """An operator stops waiting for a node to confirm the end of an attempt."""
    after = replace(
        run,
        state=RunState.TIMED_OUT if run.cancel_reason == TIMEOUT else RunState.CANCELLED,
        tries=run.tries + (1 if run.state is RunState.DISPATCHED else 0),
        ended_at=now,
        deadline_at=None,
        reason="released",
        message="Released by an operator: the attempt may still be running on its node.",
    )
    return Move(before=run, after=after)


def cancelled_while_queued(
    run: Run, *, now: int, reason: str = "cancelled", by: str | None = None
) -> Move:
    """queued → cancelled, or a dispatched one that its node says it never started.

    Args:
        by: name of the person or token that asks for it now.
    """
    after = replace(
        run,
        state=RunState.CANCELLED,
        due_at=_was_due_at(run, now=now),
        ended_at=now,
        deadline_at=None,
        claim_token=None,
        reason=_CANCELLED_FOR.get(run.cancel_reason or "", reason),
        cancel_requested_at=run.cancel_requested_at or now,
        cancelled_by=by or run.cancelled_by,
    )
    return Move(before=run, after=after)


def _was_due_at(run: Run, *, now: int) -> int:
    """The instant at which an ended run was due: nothing that has ended waits for its turn.

    A parked run has no instant of its own any more: it is told when it was due first.
    """
    return run.due_at if run.due_at != PARKED_AT else min(run.first_due_at, now)


def may_end_late(run: Run) -> bool:
    """Whether a result of the run's last attempt still ends it although the node was lost."""
    return run.state is RunState.LOST or (run.state is RunState.QUEUED and run.reason == AFTER_LOST)


def _tried_again(
    before: Run,
    done: Run,
    policy: RetryPolicy,
    *,
    now: int,
    retry_after_ms: int | None = None,
    final: bool = False,
) -> Move:
    """To `done`, or back to queued for another try when the policy asks for one."""
    late = before.state not in LIVE  # a lost attempt's result came after all
    if (
        before.state in FINAL  # it has ended, and what follows from that has happened
        or done.state not in FAILURES
        or done.tries > policy.retries
        or (done.cancel_requested_at is not None and done.cancel_reason != TIMEOUT)
        or final
        or (retry_after_ms is None and not policy.tries_again_after(done.state))
    ):
        return Move(before=before, after=done, unarchived=late)
    delay_ms = policy.delay_after(done.tries, done.id)
    if retry_after_ms is not None:
        delay_ms = min(retry_after_ms, MAX_RETRY_AFTER_MS)
    due_at = now + delay_ms
    if late:  # the try that its loss brought about, but no sooner after the failure than asked for
        ended_at = now if done.ended_at is None else done.ended_at
        due_at = max(before.due_at, ended_at + delay_ms)
    after = replace(
        done,
        state=RunState.QUEUED,
        due_at=due_at,
        reason=f"retry_after_{done.state.value}",
        cancel_requested_at=None,  # a timeout's: the next try has a time of its own
        cancel_reason=None,
        cancelled_by=None,
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
        choice=run.choice,
        due_at=run.due_at,
    )
