"""What must hold after every play, whatever it was about."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from tests.interleavings.props import is_live
from tests.interleavings.stage import Stage
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import Blocking
from tickwheel_admin.domain.runs.run import FINAL, LIVE, MOVES, PARKED_AT, Run, RunState
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs.lanes import BlockingLane, lane_of
from tickwheel_shared.protocol import RunRequest

_MOVES_SEEN = sa.table("seen_move", *map(sa.column, (
    "id", "run_id", "old_state", "new_state", "old_attempt", "attempt", "node_id", "reason",
)))  # fmt: skip


def broken(stage: Stage) -> Iterator[str]:
    """Every promise that the rows do not keep."""
    runs = stage.runs()
    yield from _rows_are_coherent(runs)
    yield from _slots_are_counted(stage, runs)
    yield from _unique(runs)
    yield from _moves_are_legal(stage, runs)
    yield from _sent_is_claimed(stage, runs)
    yield from _lanes_are_not_crowded(stage, runs)


def _rows_are_coherent(runs: list[Run]) -> Iterator[str]:
    for run in runs:
        told = f"run {run.id} is {run.state.value}"
        placed = run.node_id is not None and run.claim_token is not None
        is_placed = not run.is_fire and not run.is_workflow
        if run.state in LIVE and is_placed and not placed:
            yield f"{told} without node or token"
        if run.state in LIVE and run.deadline_at is None:
            yield f"{told} without a deadline"
        if run.state in FINAL and run.ended_at is None:
            yield f"{told} without its end"
        if run.state is not RunState.QUEUED and run.due_at == PARKED_AT:
            yield f"{told} and is due when its turn comes"
        if run.state in FINAL and run.blocking_key is not None:
            yield f"{told} and stands in line"
        if run.blocking_key is not None and run.blocking_key % 2 != (run.state in LIVE):
            yield f"{told} with blocking key {run.blocking_key}"


def _slots_are_counted(stage: Stage, runs: list[Run]) -> Iterator[str]:
    live = Counter(run.node_id for run in runs if is_live(run) and run.node_id is not None)
    for node in stage.rows(sa.select(tables.node)):
        if node.in_use != live[node.id]:
            yield f"{node.name} counts {node.in_use} slots, and has {live[node.id]} live runs"
        if node.in_use > node.slots:
            yield f"{node.name} has {node.in_use} live runs in {node.slots} slots"


def _unique(runs: list[Run]) -> Iterator[str]:
    fires = Counter((r.trigger_id, r.scheduled_at, r.shard_index) for r in runs if r.trigger_id)
    shards = Counter((r.fire_id, r.shard_index) for r in runs if r.fire_id)
    requests = Counter((r.job_id, r.request_key) for r in runs if r.request_key)
    for what, counter in (("fire", fires), ("shard", shards), ("request", requests)):
        for key, count in counter.items():
            if count > 1:
                yield f"{what} {key} is there {count} times"


def _moves_seen(stage: Stage) -> list[Any]:
    """In their order, without claims that put a run back because another admin took the slot.

    Nobody else sees such a claim: it is taken back in its own transaction. Only there do attempts
    become fewer.
    """
    kept: list[Any] = []
    for row in stage.rows(sa.select(_MOVES_SEEN).order_by(_MOVES_SEEN.c.id)):
        if row.attempt is not None and row.attempt < row.old_attempt:
            at = max(i for i, each in enumerate(kept) if each.run_id == row.run_id)
            claim = kept.pop(at)
            assert (claim.old_state, claim.old_attempt) == (row.new_state, row.attempt), claim
        else:
            kept.append(row)
    return kept


def _moves_are_legal(stage: Stage, runs: list[Run]) -> Iterator[str]:
    """As the database saw them: each from where the one before had led, and an end only once."""
    seen: defaultdict[int, list[Any]] = defaultdict(list)
    for row in _moves_seen(stage):
        seen[row.run_id].append(row)
    for run_id, moves in seen.items():
        told = ", ".join(f"{m.old_state}/{m.old_attempt}→{m.new_state}/{m.attempt}" for m in moves)
        for before, after in pairwise(moves):
            if (before.new_state, before.attempt) != (after.old_state, after.old_attempt):
                yield f"run {run_id}: one move is not seen by the next: {told}"
        for move in moves:
            old, new = RunState(move.old_state), RunState(move.new_state)
            if old is not new and new not in MOVES.get(old, ()):
                yield f"run {run_id}: {told}"
            if old in FINAL and old is not RunState.LOST:
                yield f"run {run_id} ended twice: {told}"
        claims = Counter(m.attempt for m in moves if m.new_state == RunState.DISPATCHED.value)
        if any(count > 1 for count in claims.values()):
            yield f"run {run_id}: one attempt was claimed twice: {told}"
    by_id = {run.id: run for run in runs}
    for run_id, moves in seen.items():
        run = by_id.get(run_id)
        if run is not None and (moves[-1].new_state, moves[-1].attempt) != (run.state, run.attempt):
            yield f"run {run_id} is {run.state}/{run.attempt}, which no move led to"


def _lanes_are_not_crowded(stage: Stage, runs: list[Run]) -> Iterator[str]:
    """At no time were more runs of a lane live than its job allows (G8)."""
    jobs = {job.id: job.config for job in stage.jobs}
    broadcasts = {key for key in jobs if jobs[key].routing.strategy is Routing.BROADCAST}
    lanes = {
        run.id: lane_of(run, broadcast=run.job_id in broadcasts)
        for run in runs
        if _stands_in_line(run, jobs[run.job_id])
    }
    live: defaultdict[BlockingLane, set[int]] = defaultdict(set)
    for run in stage.live_before:
        live[lane_of(run, broadcast=run.job_id in broadcasts)].add(run.id)
    for row in _moves_seen(stage):
        lane = lanes.get(row.run_id)
        if lane is None:
            continue
        if RunState(row.new_state) in LIVE:
            live[lane].add(row.run_id)
            if len(live[lane]) > jobs[lane.job_id].blocking.concurrency:
                yield f"runs {sorted(live[lane])} of {lane} were live at once"
        else:
            live[lane].discard(row.run_id)


def _stands_in_line(run: Run, config: JobConfig) -> bool:
    """The shards of a serial job have lanes of their own; with other strategies fires stand."""
    strategy = config.blocking.strategy
    if strategy is Blocking.PARALLEL:
        return False
    if run.is_fire or run.fire_id is not None:
        return (run.fire_id is not None) == (strategy is Blocking.SERIAL)
    return True


def _sent_is_claimed(stage: Stage, runs: list[Run]) -> Iterator[str]:
    """What went to nodes is what the ledger says, once."""
    tokens = {(run.id, run.attempt): run.claim_token for run in runs}
    archive = tables.run_attempt
    for row in stage.rows(sa.select(archive)):
        tokens.setdefault((row.run_id, row.attempt), row.claim_token)
    sent: Counter[tuple[int, int]] = Counter()
    for admin in stage.admins:
        for request in admin.sent(RunRequest):
            sent[request.run, request.attempt] += 1
            token = tokens.get((request.run, request.attempt))
            if token is not None and token != request.token:  # None: it was handed back
                yield f"{admin.name} sent run {request.run}/{request.attempt}, not its own claim"
    for (run_id, attempt), count in sent.items():
        if count > 1:
            yield f"run {run_id}/{attempt} was sent {count} times"
