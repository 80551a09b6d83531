"""The claim transaction: due runs are given to nodes, and slots are taken for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain import moves as run_moves
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.node import Node
from tickwheel_admin.domain.routing import Candidate, RandomSource, Routing, choose
from tickwheel_admin.domain.run import Move, Run
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.job_configs import JobConfigs
from tickwheel_admin.store.nodes import live_nodes, take_slots
from tickwheel_admin.store.route_cursors import turn_route_cursors
from tickwheel_admin.store.runs import DueRun, claimable_runs, lock_queued_runs, move_runs
from tickwheel_shared.protocol import RunRequest

# A run whose handler no live node offers steps aside for this long, so that it hides no others.
NO_HANDLER_DELAY_MS = 5_000
NO_HANDLER = "no_node_offers_handler"


@dataclass(slots=True, kw_only=True)
class Claims:
    """What one transaction claimed for one executor."""

    requests: dict[int, list[RunRequest]] = field(default_factory=dict)  # by node
    claimed: int = 0
    postponed: int = 0
    blocked: bool = False  # runs are due that no node has a slot for


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimContext:
    """What a claim needs besides the database."""

    connected: Collection[int]  # nodes with a socket to this admin
    avoided: Collection[tuple[int, str]]  # (node, handler) that refused a moment ago
    limit: int
    oldest_first: bool  # instead of by priority, so that none starves
    random: RandomSource
    new_token: Callable[[], str]
    configs: JobConfigs


def claim_queued_runs(conn: sa.Connection, executor_id: int, context: ClaimContext) -> Claims:
    """Claim what is due and fits; committed before anything is sent.

    Locks in the order job, run, node, each by ascending id.
    """
    now = now_ms(conn)
    nodes = live_nodes(conn, executor_id, now=now)
    router = _Router(nodes, context)
    claims = Claims()
    if not router.free_slots:
        claims.blocked = True
        return claims
    due = claimable_runs(
        conn,
        executor_id=executor_id,
        now=now,
        # A few more than there are slots: some may wait for a handler that is not there.
        limit=min(context.limit, router.free_slots + 50),
        oldest_first=context.oldest_first,
    )
    configs = context.configs.get_many(conn, {(run.job_id, run.job_revision) for run in due})
    _turn_cursors(conn, due, configs, router)
    locked = {run.id: run for run in lock_queued_runs(conn, [run.id for run in due], now=now)}
    placed: defaultdict[int, list[Run]] = defaultdict(list)
    postponed: list[Move] = []
    for run in (locked[run.id] for run in due if run.id in locked):
        config = configs[run.job_id, run.job_revision]
        if not router.offers(config.handler):
            until = now + NO_HANDLER_DELAY_MS
            postponed.append(run_moves.postponed(run, reason=NO_HANDLER, until=until))
            continue
        node_id = router.place(run, config)
        if node_id is None:
            claims.blocked = True
        elif node_id in context.connected:  # else another admin, which hears it, claims the run
            placed[node_id].append(run)
    moves = _take(conn, placed, now=now, context=context)
    move_runs(conn, moves, slots_are_taken=True)
    move_runs(conn, postponed)
    for move in moves:
        run = move.after
        config = configs[run.job_id, run.job_revision]
        claims.requests.setdefault(run.node_id or 0, []).append(request_of(run, config))
    claims.claimed, claims.postponed = len(moves), len(postponed)
    return claims


def request_of(run: Run, config: JobConfig) -> RunRequest:
    """The message that starts a dispatched run on its node."""
    parameters = config.parameters if run.parameters is None else run.parameters
    return RunRequest(
        run=run.id,
        attempt=run.attempt,
        token=run.claim_token or "",
        job_id=run.job_id,
        job=config.name,
        handler=config.handler,
        parameters=msgspec.Raw(parameters.encode()),
        scheduled_at=run.scheduled_at,
        timeout_ms=config.timeout_ms,
        try_number=run.tries + 1,
        max_tries=config.retry.retries + 1,
        origin=run.origin.value,
        shard_index=run.shard_index,
    )


def _take(
    conn: sa.Connection,
    placed: Mapping[int, list[Run]],
    *,
    now: int,
    context: ClaimContext,
) -> list[Move]:
    """Take the slots node by node; what another admin was faster with stays queued."""
    moves: list[Move] = []
    for node_id in sorted(placed):
        chosen = placed[node_id]
        if take_slots(conn, node_id=node_id, count=len(chosen), now=now):
            moves += (
                run_moves.claimed(run, node_id=node_id, token=context.new_token(), now=now)
                for run in chosen
            )
    return moves


def _turn_cursors(
    conn: sa.Connection,
    due: Sequence[DueRun],
    configs: Mapping[tuple[int, int], JobConfig],
    router: _Router,
) -> None:
    """Give the router the round-robin cursors of the jobs concerned, and move them on."""
    turning: defaultdict[int, int] = defaultdict(int)
    for run in due:
        if configs[run.job_id, run.job_revision].routing is Routing.ROUND_ROBIN:
            turning[run.job_id] += 1
    if turning and router.size > 1:  # one node needs no turns
        router.cursors = turn_route_cursors(conn, turning)


class _Router:
    """The live nodes of an executor, with the slots that are left while a batch is placed."""

    def __init__(self, nodes: list[Node], context: ClaimContext) -> None:
        open_nodes = [node for node in nodes if not node.draining]
        self._context = context
        self._candidates = {
            node.id: Candidate(
                node_id=node.id, name=node.name, slots=node.slots, free=node.slots - node.in_use
            )
            for node in open_nodes
        }
        self._offering: defaultdict[str, list[Candidate]] = defaultdict(list)
        for node in open_nodes:
            for handler in node.handlers:
                self._offering[handler].append(self._candidates[node.id])
        self.cursors: dict[int, int] = {}

    @property
    def size(self) -> int:
        return len(self._candidates)

    @property
    def free_slots(self) -> int:
        return sum(max(0, candidate.free) for candidate in self._candidates.values())

    def offers(self, handler: str) -> bool:
        return handler in self._offering

    def place(self, run: Run, config: JobConfig) -> int | None:
        """The chosen node, with one slot less; None when none is free."""
        candidates = [
            candidate
            for candidate in self._offering[config.handler]
            if candidate.free > 0
            and (candidate.node_id, config.handler) not in self._context.avoided
        ]
        if not candidates:
            return None
        cursor = self.cursors.get(run.job_id, 0)
        chosen = choose(config.routing, candidates, cursor=cursor, random=self._context.random)
        self.cursors[run.job_id] = cursor + 1
        chosen.free -= 1
        return chosen.node_id
