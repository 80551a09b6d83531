"""The claim transaction: due runs are given to nodes, and slots are taken for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from msgspec.structs import replace

from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.domain.jobs.secret_references import secrets_of_run
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.run import Move, Origin
from tickwheel_admin.engine.dispatcher.claim_decisions import ClaimDecisions
from tickwheel_admin.engine.dispatcher.claim_inputs import ClaimContext, ClaimInputs
from tickwheel_admin.engine.dispatcher.claim_traces import ClaimTraces
from tickwheel_admin.engine.dispatcher.run_request import request_of
from tickwheel_admin.engine.dispatcher.scripts import read_scripts
from tickwheel_admin.engine.handoff import prepare_inputs
from tickwheel_admin.engine.ports import TracedRun
from tickwheel_admin.store.database.facts import BatchStep, facts_of
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.executors.secrets import note_secret_use
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.inserts import insert_fires
from tickwheel_admin.store.runs.runs import claim_runs
from tickwheel_shared.protocol import RunRequest


@dataclass(slots=True, kw_only=True)
class ClaimResult:
    """What one transaction did for one executor."""

    requests: dict[int, list[RunRequest]] = field(default_factory=dict)  # by node
    # What operators want of these nodes. They are told before the runs are sent: a node that
    # drained until now, or had fewer slots, would refuse them.
    targets: dict[int, NodeTargets] = field(default_factory=dict)
    claimed: int = 0
    claimed_at: int = 0  # `dispatched_at` of what was claimed
    settled: int = 0  # runs that were expanded, skipped, parked or put off
    steps: int = 0  # of workflows that have begun
    stopping: bool = False  # live runs were asked to end for newer ones
    blocked: bool = False  # runs are due that no node has a slot for
    crowded: bool = False  # so many that some were put off
    more: bool = False  # this batch was full, and there are slots for others
    late_ms: int | None = None  # claimed after their instant: the latest fire that was on time
    outrun: bool = False  # other admins took slots that were chosen here: there may be others
    pools_held: bool = False  # by claims of other admins: what waits for them is looked at soon
    traced: list[TracedRun] = field(default_factory=list)  # of what was claimed and expanded
    looks: int = 1  # batches to search next time: more while other admins claim the first


def claim_queued_runs(conn: sa.Connection, executor_id: int, context: ClaimContext) -> ClaimResult:
    """Claim what is due and fits; committed before anything is sent.

    Raises:
        TooFewIds: fires are to be cut into more shards than there are ids.
    """
    inputs = ClaimInputs.read(conn, executor_id, context)
    decisions = ClaimDecisions(inputs, context)
    decisions.decide()
    return _write(conn, inputs, decisions, context)


def _write(
    conn: sa.Connection, inputs: ClaimInputs, decisions: ClaimDecisions, context: ClaimContext
) -> ClaimResult:
    """Write what was decided; returns what is to be sent."""
    result = ClaimResult(
        stopping=decisions.stopping,
        blocked=decisions.blocked,
        crowded=decisions.crowded,
        looks=inputs.looks,
        pools_held=inputs.pools.are_held,
    )
    insert_fires(conn, decisions.shards)
    traces = ClaimTraces(context.tracer)
    moves = traces.begin(_merged(decisions.moves))
    if moves:
        result.steps = _move(conn, moves, inputs, context, taken_ids=len(decisions.shards))
    placed = [
        (node_id, run, placement)
        for node_id in sorted(decisions.placed)
        for run, placement in decisions.placed[node_id]
    ]
    claims = [
        run_moves.claimed(
            run,
            node_id=node_id,
            token=context.new_token(),
            now=inputs.now,
            choice=placement.choice,
        )
        for node_id, run, placement in placed
    ]
    claimed = claim_runs(conn, traces.begin(claims), now=inputs.now)
    result.outrun = len(claimed) < len(claims)
    kept = {move.before.id for move in claimed}
    inputs.memory.keep([(run.job_id, each) for _, run, each in placed if run.id in kept])
    inputs.pools.write([move.after for move in claimed])
    if claimed:
        facts_of(conn).batches.append((BatchStep.CLAIMING, len(claimed)))
    result.requests = _requests(conn, claimed, inputs, context, traces)
    result.traced = [
        TracedRun(run, config.name, config.handler)
        for run in (move.after for move in (*moves, *claimed))
        if traces.is_traced(run)
        for config in (inputs.config(run),)
    ]
    _note_secrets(conn, claimed, inputs)
    router = inputs.router
    result.targets = {node_id: router.targets_of(node_id) for node_id in result.requests}
    result.claimed, result.settled = len(claimed), len(moves)
    result.claimed_at = inputs.now
    result.more = inputs.window_is_full and router.free_slots > 0
    result.late_ms = max((_late_ms(move) for move in claimed if _is_on_time(move)), default=None)
    return result


def _is_on_time(move: Move) -> bool:
    """Whether it is the first try of a fire that was planned before its instant."""
    return move.before.origin is Origin.SCHEDULE and move.before.tries == 0


def _late_ms(move: Move) -> int:
    return (move.after.dispatched_at or 0) - move.before.due_at


def _move(
    conn: sa.Connection,
    moves: Sequence[Move],
    inputs: ClaimInputs,
    context: ClaimContext,
    *,
    taken_ids: int,
) -> int:
    """Returns how many steps of workflows have begun."""
    try:
        followed = move_with_follow_ups(
            conn,
            moves,
            configs=context.configs,
            now=inputs.now,
            run_ids=inputs.run_ids[taken_ids:],
        )
    except TooFewIds as more:  # a skipped shard may be the last of its fire, which has children
        raise TooFewIds(inputs.used_ids + taken_ids + more.count) from more
    return followed.steps


def _requests(
    conn: sa.Connection,
    claimed: Sequence[Move],
    inputs: ClaimInputs,
    context: ClaimContext,
    traces: ClaimTraces,
) -> dict[int, list[RunRequest]]:
    """What is sent to each node."""
    scripts = read_scripts(conn, [move.after for move in claimed], inputs, context.sources)
    attempts = prepare_inputs(conn, [move.after for move in claimed], inputs.configs)
    requests: dict[int, list[RunRequest]] = {}
    for move in claimed:
        run = move.after
        config, node_id = inputs.config(run), run.node_id or 0
        request = request_of(
            run,
            config,
            stop_when_cut_off=inputs.router.must_stop_when_cut_off(node_id, config),
            state=attempts.state_of(run),
            checkpoint=attempts.checkpoint_of(run),
            recovering=run.id in attempts.recovering,
            script=scripts.get(run.id),
            secrets=inputs.secrets.values,
            trace=traces.of_attempt(run),
        )
        requests.setdefault(node_id, []).append(request)
    return requests


def _note_secrets(conn: sa.Connection, claimed: Sequence[Move], inputs: ClaimInputs) -> None:
    """Note once an hour that a secret is used."""
    if not inputs.secrets.idle:  # nearly always
        return
    runs = [move.after for move in claimed]
    used = {name for run in runs for name in secrets_of_run(inputs.config(run), run.parameters)}
    if idle := used.intersection(inputs.secrets.idle):
        note_secret_use(conn, runs[0].executor_id, idle, now=inputs.now)


def _merged(moves: Sequence[Move]) -> list[Move]:
    """Several moves of one run are written as one."""
    by_run: dict[int, Move] = {}
    for move in moves:
        earlier = by_run.get(move.before.id)
        by_run[move.before.id] = move if earlier is None else replace(move, before=earlier.before)
    return list(by_run.values())
