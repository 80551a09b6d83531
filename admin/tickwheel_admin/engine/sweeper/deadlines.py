"""Runs past their deadline: their nodes are asked about them, or they are stopped or ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from msgspec.structs import replace

from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.runs.run import (
    CANCEL_CONFIRM_MS,
    CANCEL_REPEAT_MS,
    CHECK_MS,
    CONFIRM_MS,
    CUT_OFF,
    FINAL,
    LIVE,
    STILL_RUNNING,
    TIMEOUT,
    Move,
    Run,
    RunState,
)
from tickwheel_admin.domain.runs.trace import ends_of_attempts
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.deadlines import queued_past_deadline, set_deadlines
from tickwheel_admin.store.runs.follow_ups import FollowUpResult, move_with_follow_ups
from tickwheel_admin.store.runs.runs import lock_runs
from tickwheel_admin.store.runs.shards import count_shards, lock_open_shards
from tickwheel_shared.protocol import Cancel, CancelReason, Message, Query

RUNS_PER_BATCH = 500
_CANCEL_REASONS = {TIMEOUT: CancelReason.TIMEOUT, "covered": CancelReason.COVERED}


@dataclass(slots=True)
class SweepResult:
    """What one transaction decided."""

    messages: defaultdict[int, list[Message]] = field(default_factory=lambda: defaultdict(list))
    timed_out: int = 0
    moved: int = 0
    followed: FollowUpResult = field(default_factory=FollowUpResult)
    ended: Sequence[Move] = ()  # attempts of runs that are part of a trace
    now: int = 0  # database time of it


def sweep_live(
    conn: sa.Connection,
    ids: Collection[int],
    configs: JobConfigs,
    connected: Collection[int],
    may_expire: bool,
    run_ids: Sequence[int] = (),
) -> SweepResult:
    """Deal with live attempts whose deadline is past.

    Args:
        connected: nodes that this admin can ask.
        may_expire: whether it trusts its own view enough to end what a node did not end.

    Raises:
        TooFewIds: as `move_with_follow_ups`.
    """
    now = now_ms(conn)
    swept = SweepResult()
    moves: list[Move] = []
    deadlines: list[tuple[int, int]] = []
    locked = lock_runs(conn, ids)
    known = configs.get_many(conn, {(run.job_id, run.job_revision) for run in locked.values()})
    for run in locked.values():
        if run.state not in LIVE or run.is_fire or not _is_past(run, now=now):
            continue  # another transaction dealt with it meanwhile
        config = known[run.job_id, run.job_revision]
        if may_expire and _timeout_is_over(run, config, now=now):
            if config.blocking.strategy is Blocking.PARALLEL:
                moves.append(run_moves.timed_out(run, config.retry, now=now))
                swept.messages[run.node_id or 0].append(_cancel(run, CancelReason.TIMEOUT))
                swept.timed_out += 1
                continue
            if run.cancel_requested_at is None:
                # No run may start beside it: it is told to stop, and counts as live until it has.
                move = run_moves.stop_wanted(run, reason=TIMEOUT, now=now)
                moves.append(move)
                run = move.after
        if run.node_id is None or run.node_id not in connected:
            continue
        if run.cancel_requested_at is None:
            query = Query(run=run.id, attempt=run.attempt, token=run.claim_token or "")
            swept.messages[run.node_id].append(query)
            deadlines.append((run.id, now + CONFIRM_MS))
            continue
        reason = _CANCEL_REASONS.get(run.cancel_reason or "", CancelReason.OPERATOR)
        swept.messages[run.node_id].append(_cancel(run, reason))
        deadlines.append((run.id, now + CANCEL_REPEAT_MS))
        if run.cancel_requested_at + CANCEL_CONFIRM_MS <= now and run.reason != STILL_RUNNING:
            after = replace(run, reason=STILL_RUNNING)
            moves.append(Move(before=locked[run.id], after=after))
    swept.followed = move_with_follow_ups(conn, moves, configs=configs, now=now, run_ids=run_ids)
    set_deadlines(conn, deadlines)
    swept.moved = len(moves)
    swept.ended, swept.now = ends_of_attempts(moves), now
    return swept


def sweep_fires(
    conn: sa.Connection,
    ids: Collection[int],
    configs: JobConfigs,
    run_ids: Sequence[int] = (),
) -> SweepResult:
    """Stop the shards of whole fires that are to end; end fires without an open shard.

    Shards are locked before their fires, as everywhere.
    """
    now = now_ms(conn)
    shards = lock_open_shards(conn, ids, limit=RUNS_PER_BATCH)
    fires = {run_id: run for run_id, run in lock_runs(conn, ids).items() if run.state in LIVE}
    counts = count_shards(conn, fires)
    moves = [
        run_moves.fire_ended(fire, counts[fire.id], now=now)
        for fire in fires.values()
        if all(state in FINAL for state in counts[fire.id])
    ]
    for shard in shards:
        fire = fires.get(shard.fire_id or 0)
        if fire is None or fire.cancel_requested_at is None:
            continue
        if shard.state is RunState.QUEUED:
            wanted = replace(
                shard, cancel_reason=fire.cancel_reason, cancelled_by=fire.cancelled_by
            )
            move = run_moves.cancelled_while_queued(wanted, now=now)
            moves.append(replace(move, before=shard))
        elif shard.cancel_requested_at is None:
            reason = fire.cancel_reason or "operator"
            moves.append(run_moves.stop_wanted(shard, reason=reason, now=now, by=fire.cancelled_by))
    swept = SweepResult(moved=len(moves))
    ended = {move.before.id for move in moves}
    set_deadlines(
        conn,
        [
            (fire.id, now + (CHECK_MS if fire.cancel_requested_at is None else CANCEL_REPEAT_MS))
            for fire in fires.values()
            if fire.id not in ended
        ],
    )
    swept.followed = move_with_follow_ups(conn, moves, configs=configs, now=now, run_ids=run_ids)
    return swept


def expire_queued(
    conn: sa.Connection, configs: JobConfigs, run_ids: Sequence[int] = ()
) -> SweepResult:
    """Skip queued runs that were to start by now and have not."""
    now = now_ms(conn)
    locked = lock_runs(conn, queued_past_deadline(conn, now=now, limit=RUNS_PER_BATCH))
    moves = [
        run_moves.skipped(run, reason="expired", now=now)
        for run in locked.values()
        if run.state is RunState.QUEUED and run.tries == 0 and _is_past(run, now=now)
    ]
    followed = move_with_follow_ups(conn, moves, configs=configs, now=now, run_ids=run_ids)
    return SweepResult(moved=len(moves), followed=followed)


def _is_past(run: Run, *, now: int) -> bool:
    return run.deadline_at is not None and run.deadline_at <= now


def _timeout_is_over(run: Run, config: JobConfig, *, now: int) -> bool:
    return (
        run.state is RunState.RUNNING
        and run.reason != CUT_OFF
        and config.timeout_ms is not None
        and run.started_at is not None
        and run_moves.running_deadline(run.started_at, config.timeout_ms) <= now
    )


def _cancel(run: Run, reason: CancelReason) -> Cancel:
    return Cancel(run=run.id, attempt=run.attempt, token=run.claim_token or "", reason=reason)
