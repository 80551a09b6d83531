"""Runs of nodes whose lease is over: some are lost now, others are held for a while."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.executors.node import Node, NodeState
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import start_by_again
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.blocking import Blocking, WhenCutOff
from tickwheel_admin.domain.runs.run import CUT_OFF, LIVE, Move, Run, RunState
from tickwheel_admin.domain.runs.trace import ends_of_attempts
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.executors.nodes import ended_nodes
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.deadlines import live_runs_of_nodes
from tickwheel_admin.store.runs.follow_ups import FollowUpResult, move_with_follow_ups
from tickwheel_admin.store.runs.runs import lock_runs

RUNS_PER_BATCH = 500
NEVER_STARTED = "refused_draining"  # as if its node had read and refused it


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRunsResult:
    """What became of the runs of ended nodes."""

    lost: int
    handed_back: int  # never started, for their node had said goodbye
    held: int  # still live although no admin hears from their node
    followed: FollowUpResult
    idle_nodes: Sequence[int]  # of which no run was found
    ended: Sequence[Move]  # attempts of runs that are part of a trace
    now: int  # database time of it


def move_lost_runs(
    conn: sa.Connection,
    nodes: Collection[Node],
    configs: JobConfigs,
    run_ids: Sequence[int] = (),
    *,
    may_end_holds: bool = True,
) -> LostRunsResult:
    """End or hand back the runs of ended nodes, as far as they are not held.

    Args:
        may_end_holds: whether the database's clock can be trusted to say that a hold is over.

    Raises:
        TooFewIds: as `move_with_follow_ups`.
    """
    now = now_ms(conn)
    by_id = {node.id: node for node in nodes}
    found = live_runs_of_nodes(conn, by_id, now=now, limit=RUNS_PER_BATCH)
    locked = lock_runs(conn, found)
    # Read under the locks: a node may have come back meanwhile, and have been sent runs.
    ended = ended_nodes(conn, by_id)
    known = configs.get_many(conn, {(run.job_id, run.job_revision) for run in locked.values()})
    moves: list[Move] = []
    for run in locked.values():
        if run.state in LIVE and run.node_id in ended:
            config = known[run.job_id, run.job_revision]
            hold_ends_at = now if may_end_holds else 0
            moves += _move_of(run, by_id[run.node_id], config, now=now, by=hold_ends_at)
    followed = move_with_follow_ups(conn, moves, configs=configs, now=now, run_ids=run_ids)
    held = sum(move.after.state in LIVE for move in moves)
    handed_back = sum(never_started(move.before, by_id) for move in moves)
    return LostRunsResult(
        lost=len(moves) - held - handed_back,
        handed_back=handed_back,
        held=held,
        followed=followed,
        idle_nodes=[] if found else sorted(_without_runs(conn, by_id)),
        ended=ends_of_attempts(moves),
        now=now,
    )


def _move_of(run: Run, node: Node, config: JobConfig, *, now: int, by: int) -> list[Move]:
    if never_started(run, {node.id: node}):
        back = run_moves.handed_back(
            run, reason=NEVER_STARTED, now=now, start_by=start_by_again(run, config)
        )
        return [back]
    until = held_until(config, node)
    if until is None or until <= by:
        return [run_moves.lost(run, config.retry, now=now)]
    if run.reason == CUT_OFF and run.deadline_at == until:
        return []
    return [run_moves.held(run, until=until)]


def never_started(run: Run, nodes: Mapping[int, Node]) -> bool:
    """Whether the run was on its way to its node when the node said goodbye.

    A node says goodbye when all runs that it started have a receipt. So a run that it has not
    accepted was not started.
    """
    node = nodes[run.node_id or 0]
    return node.state is NodeState.GONE and run.state is RunState.DISPATCHED


def held_until(config: JobConfig, node: Node) -> int | None:
    """Until when a run counts as live after its node's lease; None: it is lost at once.

    A node that said goodbye held nothing. What a node must stop, it has stopped when its full
    lease is over; when its sockets close, only the lease is shortened.
    """
    policy = config.blocking
    if node.state is NodeState.GONE or policy.strategy is Blocking.PARALLEL:
        return None
    if policy.when_cut_off is WhenCutOff.STOP and node.stops(config.handler):
        return node.full_lease_at
    return (node.ended_at or node.full_lease_at) + policy.hold_lost_ms


def _without_runs(conn: sa.Connection, nodes: Mapping[int, Node]) -> set[int]:
    """Nodes without any live run: no run takes the slots that they hold."""
    return {node_id for node_id in nodes if not live_runs_of_nodes(conn, [node_id], limit=1)}
