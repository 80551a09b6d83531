"""What a node's report means for a run: pure decisions, batch and database are the caller's.

A report counts only when it shows the run's executor, its current attempt and the claim token;
stale messages change nothing (guarantee G6).
"""

from __future__ import annotations

import msgspec
from msgspec import structs

from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import start_by_again
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.run import CHECK_MS, CUT_OFF, LIVE, Move, Origin, Run, RunState
from tickwheel_admin.domain.workflows.states import StepRunKind, kind_of
from tickwheel_shared.protocol import (
    MAX_SPAWNED_BYTES,
    MAX_SPAWNED_ITEMS,
    Accepted,
    Cancel,
    CancelReason,
    Checkpoint,
    Message,
    Outcome,
    Progress,
    ReceiptCode,
    Refusal,
    Refused,
    Result,
    ResultReceipt,
    RunKey,
)

REFUSED_HANDLER = f"refused_{Refusal.UNKNOWN_HANDLER.value}"  # a run's reason, while it waits
OLD_ATTEMPT = "old_attempt"  # another attempt began: the result is kept beside it, and shown

# How long a run waits after a refusal. A full or broken node must not be asked in a busy loop.
REFUSAL_DELAY_MS = {
    Refusal.FULL: 500,
    Refusal.DRAINING: 0,
    Refusal.UNKNOWN_HANDLER: 2_000,
    Refusal.SPOOL_FAILED: 2_000,
    Refusal.NEVER_SEEN: 0,
}


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to write and what to reply."""

    move: Move | None = None
    deadline_at: int | None = None  # when the sweeper shall look next, without a move
    reply: Message | None = None
    refused: str | None = None  # why the report was ignored, for the log


Proof = RunKey | Accepted | Refused | Progress | Checkpoint | Result


def proves(run: Run | None, key: Proof, executor_id: int) -> bool:
    """Whether the report shows the run's executor, current attempt and claim token."""
    return (
        run is not None
        and run.executor_id == executor_id
        and run.attempt == key.attempt
        and run.claim_token == key.token
    )


def is_last_word(run: Run | None, key: Checkpoint | Result, executor_id: int) -> bool:
    """Whether what this attempt leaves is what the run's next try begins from: none has begun."""
    return (
        run is not None
        and proves(run, key, executor_id)
        and (run.state in LIVE or run_moves.may_end_late(run))
    )


def leaves_state(result: Result, config: JobConfig) -> bool:
    """Whether the job keeps what a result brings, when that result ends the run."""
    return (
        config.keeps_state
        and result.outcome in (Outcome.SUCCEEDED, Outcome.SKIPPED)
        and bytes(result.state) != b"null"
    )


def on_holding(
    run: Run | None, key: RunKey | Accepted, config: JobConfig, *, executor_id: int, now: int
) -> Answer:
    """The node says that it holds the attempt: accepted, an answer to a query, or held."""
    if run is None or not proves(run, key, executor_id) or run.state not in LIVE:
        stop = Cancel(run=key.run, attempt=key.attempt, token=key.token, reason=CancelReason.STALE)
        return Answer(reply=stop, refused="stale_attempt")
    if run.state is RunState.DISPATCHED:
        return Answer(move=run_moves.accepted(run, timeout_ms=config.timeout_ms, now=now))
    if run.reason == CUT_OFF:
        return Answer(move=run_moves.back_again(run, timeout_ms=config.timeout_ms, now=now))
    if config.timeout_ms is None and run.cancel_requested_at is None:
        return Answer(deadline_at=now + CHECK_MS)
    return Answer()


def on_refused(
    run: Run | None, refused: Refused, config: JobConfig, *, executor_id: int, now: int
) -> Answer:
    """The node did not start the attempt and never will."""
    if run is None or not proves(run, refused, executor_id) or run.state not in LIVE:
        return Answer(refused="stale_attempt")
    if run.state is RunState.DISPATCHED:
        reason = f"refused_{refused.reason.value}"
        move = run_moves.handed_back(
            run,
            reason=reason,
            now=now,
            delay_ms=REFUSAL_DELAY_MS[refused.reason],
            start_by=start_by_again(run, config),
        )
        return Answer(move=move)
    # It had accepted, and knows nothing of it now: whatever it did is unknown.
    return Answer(move=run_moves.lost(run, config.retry, now=now))


def on_result(
    run: Run | None, result: Result, config: JobConfig, *, executor_id: int, now: int
) -> Answer:
    """The attempt ended. Every answer lets the node clear its spool."""

    def receipt(kind: ReceiptCode, reason: str = "") -> ResultReceipt:
        return ResultReceipt(
            run=result.run,
            attempt=result.attempt,
            token=result.token,
            receipt=kind,
            reason=reason,
        )

    if run is None or run.executor_id != executor_id:
        return Answer(reply=receipt(ReceiptCode.REFUSED, "unknown_run"), refused="unknown_run")
    if result.attempt != run.attempt:
        return Answer(reply=receipt(ReceiptCode.REFUSED, OLD_ATTEMPT), refused=OLD_ATTEMPT)
    if result.token != run.claim_token:
        return Answer(reply=receipt(ReceiptCode.REFUSED, "wrong_token"), refused="wrong_token")
    if run.state not in LIVE and not run_moves.may_end_late(run):
        return Answer(reply=receipt(ReceiptCode.ALREADY_RECORDED))
    if run.state not in LIVE and _only_confirms_loss(run, result):
        return Answer(reply=receipt(ReceiptCode.ALREADY_RECORDED))
    items, problem = spawned_items(run, result)
    move = run_moves.ended(
        run,
        Outcome.FAILED if problem else result.outcome,
        config.retry,
        duration_ms=result.duration_ms,
        result=bytes(result.result).decode(),
        message=problem or result.message or None,
        log_lines=result.log_lines,
        now=now,
        retry_after_ms=result.retry_after_ms,
        final=result.final or problem is not None,
    )
    if items is not None and move.after.state is RunState.SUCCEEDED:
        move = structs.replace(move, after=run_moves.having_spawned(move.after, len(items)))
    return Answer(move=move, reply=receipt(ReceiptCode.RECORDED))


def spawned_items(run: Run, result: Result) -> tuple[list[msgspec.Raw] | None, str | None]:
    """The items that a result hands over, None if it hands over none; and what forbids it."""
    spawn = result.spawn
    if isinstance(spawn, msgspec.UnsetType) or result.outcome is not Outcome.SUCCEEDED:
        return None, None
    if not may_spawn(run):
        return None, "It may not spawn: it is not the own run of a workflow’s step."
    try:
        items = _items.decode(spawn)
    except (msgspec.DecodeError, RecursionError):
        return None, "What it spawned is no list."
    if len(items) > MAX_SPAWNED_ITEMS or len(bytes(spawn)) > MAX_SPAWNED_BYTES:
        return None, "It spawned more items than are allowed, or larger ones."
    return items, None


def may_spawn(run: Run) -> bool:
    """Whether it is the own run of a workflow's step, and no shard of it."""
    return (
        run.origin is Origin.STEP
        and run.fire_id is None
        and kind_of(run.request_key) is StepRunKind.STEP
    )


_items = msgspec.json.Decoder(list[msgspec.Raw])


def _only_confirms_loss(run: Run, result: Result) -> bool:
    """Whether a lost attempt ended because it was lost: the node heard of no admin, or of an admin
    that the attempt is stale. Nobody wanted the run itself to end.
    """
    if result.outcome is Outcome.CANCELLED:
        return run.cancel_requested_at is None
    return result.outcome is Outcome.CUT_OFF
