"""The claim transaction: due runs are given to nodes, and slots are taken for them.

Locks in the order job, run, node, state, each by ascending id; job and run rows that others hold
are left to them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from msgspec.structs import replace

from tickwheel_admin.domain.executors.node import NodeTargets
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.planning.fires import shards_of
from tickwheel_admin.domain.routing.strategy import RandomSource, Split
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.blocking import Blocking, Verdict
from tickwheel_admin.domain.runs.run import (
    NO_HANDLER,
    NO_MATCHING_NODE,
    NO_SLOT,
    PUT_OFF_MS,
    Move,
    Origin,
    Run,
)
from tickwheel_admin.engine.dispatcher.concurrency import ConcurrencyControl, limits_concurrency
from tickwheel_admin.engine.dispatcher.route_memory import RouteMemory
from tickwheel_admin.engine.dispatcher.router import Placement, Router
from tickwheel_admin.engine.dispatcher.run_request import request_of
from tickwheel_admin.engine.handoff import prepare_inputs
from tickwheel_admin.store.database.ids import TooFewIds
from tickwheel_admin.store.executors.node_slots import take_slots
from tickwheel_admin.store.executors.nodes import ended_nodes, live_nodes
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.follow_ups import move_with_follow_ups
from tickwheel_admin.store.runs.lanes import lock_parked_runs
from tickwheel_admin.store.runs.runs import (
    DueRun,
    claimable_runs,
    insert_fires,
    lock_queued_runs,
    move_runs,
    unused_run_ids,
)
from tickwheel_admin.store.triggers.pauses import now_and_pause
from tickwheel_shared.protocol import RunRequest

# A run for which there is no node steps aside for this long, so that it hides no others.
NO_NODE_DELAY_MS = PUT_OFF_MS
# The same for one that waits for a node of its own, when such runs fill the whole batch.
NO_SLOT_DELAY_MS = 500
LOOK_PAST = 50  # runs a batch looks at beyond the free slots: some may wait for something else
FIRST_IN_LINE = 25  # runs without a slot that stay due in any case: one that gets free is for them


@dataclass(slots=True, kw_only=True)
class ClaimResult:
    """What one transaction did for one executor."""

    requests: dict[int, list[RunRequest]] = field(default_factory=dict)  # by node
    # What operators want of these nodes. They are told before the runs are sent: a node that
    # drained until now, or had fewer slots, would refuse them.
    targets: dict[int, NodeTargets] = field(default_factory=dict)
    claimed: int = 0
    settled: int = 0  # runs that were expanded, skipped, parked or put off
    stopping: bool = False  # live runs were asked to end for newer ones
    blocked: bool = False  # runs are due that no node has a slot for
    crowded: bool = False  # so many that some were put off
    more: bool = False  # this batch was full, and there are slots for others
    made_up: bool = False  # missed fires are among what was claimed
    outrun: bool = False  # other admins took slots that were chosen here: there may be others
    looks: int = 1  # batches to look through next time: more while other admins claim the first


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimContext:
    """What a claim needs besides the database."""

    connected: Collection[int]  # nodes with a socket to this admin
    avoided: Collection[tuple[int, str]]  # (node, handler) that refused a moment ago
    limit: int
    looks: int  # so many batches are looked through for runs that no other admin is claiming
    oldest_first: bool  # instead of by priority, so that none starves
    random: RandomSource
    new_token: Callable[[], str]
    configs: JobConfigs
    run_ids: Sequence[int] = ()  # for shards
    no_slot_delay_ms: int = NO_SLOT_DELAY_MS


def claim_queued_runs(conn: sa.Connection, executor_id: int, context: ClaimContext) -> ClaimResult:
    """Claim what is due and fits; committed before anything is sent.

    Raises:
        TooFewIds: fires are to be cut into more shards than there are ids.
    """
    claim = _Claim(conn, executor_id, context)
    claim.decide()
    return claim.write()


class _Claim:
    """One batch of one executor: first every run is decided, then everything is written."""

    def __init__(self, conn: sa.Connection, executor_id: int, context: ClaimContext) -> None:
        self._conn = conn
        self._context = context
        # Read here: a pause that began or ended since the dispatcher looked counts as it is now.
        self._now, self._paused_at = now_and_pause(conn, executor_id)
        self._router = Router(
            live_nodes(conn, executor_id, now=self._now),
            avoided=context.avoided,
            random=context.random,
        )
        self._claims = ClaimResult()
        self._limit = min(context.limit, self._router.free_slots + LOOK_PAST)
        due = claimable_runs(
            conn,
            executor_id=executor_id,
            now=self._now,
            limit=self._limit * context.looks,
            oldest_first=context.oldest_first,
        )
        self._window_is_full = len(due) == self._limit * context.looks
        self._configs = context.configs.get_many(conn, {(r.job_id, r.job_revision) for r in due})
        if not self._router.free_slots:
            # Nothing can start; what may be skipped, parked or cut into shards is decided still.
            self._claims.blocked = True
            due = [run for run in due if self._needs_no_slot(self._config(run))]
        in_line = {run.job_id for run in due if limits_concurrency(self._config(run).blocking)}
        self._memory = RouteMemory(
            conn,
            self._router,
            due,
            configs=self._configs,
            in_line=in_line,
            executor_id=executor_id,
        )
        self._window_is_full = self._window_is_full or self._memory.is_full
        due = [run for run in due if run.job_id not in self._memory.left]
        self._due = self._lock([run.id for run in due])
        self._turns = ConcurrencyControl(
            conn,
            {r.job_id: self._config(r).blocking for r in self._due if r.job_id in in_line},
            self._due,
            broadcasts={
                r.job_id
                for r in self._due
                if self._config(r).routing.record.split is Split.PER_NODE
            },
            now=self._now,
        )
        self._add_parked_to_cover()
        self._gone = self._pinned_to_gone_nodes()
        self._placed: defaultdict[int, list[tuple[Run, Placement]]] = defaultdict(list)
        # They must not be all that this batch, and so each one, has room for.
        self._stay_due = 0 if self._memory.is_full else FIRST_IN_LINE
        self._moves: list[Move] = []  # everything but claims
        self._shards: list[Run] = []
        self._run_ids = unused_run_ids(conn, context.run_ids)
        self._used_ids = len(context.run_ids) - len(self._run_ids)
        self._ids = iter(self._run_ids)

    # --- reading ---------------------------------------------------------------------------------

    def _lock(self, ids: Sequence[int]) -> list[Run]:
        """The first of these runs that no other admin holds, in their order."""
        free: list[Run] = []
        held = looked_at = 0
        for _ in range(self._context.looks):
            wanted = ids[looked_at : looked_at + self._limit - len(free)]
            if not wanted:
                break
            looked_at += len(wanted)
            locked = {run.id: run for run in lock_queued_runs(self._conn, wanted, now=self._now)}
            free += (locked[run_id] for run_id in wanted if run_id in locked)
            held += len(wanted) - len(locked)
        if held:
            self._claims.looks = self._context.looks + (held > len(free))
        self._window_is_full = self._window_is_full or looked_at < len(ids)
        return free

    def _add_parked_to_cover(self) -> None:
        """A newer run of a `cover_early` job covers those that are parked, so they come along."""
        covering = {
            run.job_id
            for run in self._due
            if self._config(run).blocking.strategy is Blocking.COVER_EARLY
        }
        parked = lock_parked_runs(self._conn, self._turns.parked(covering))
        if parked:
            self._configs = {
                **self._configs,
                **self._context.configs.get_many(
                    self._conn, {(run.job_id, run.job_revision) for run in parked}
                ),
            }
            self._due = [*sorted(parked, key=lambda run: run.scheduled_at), *self._due]

    def _pinned_to_gone_nodes(self) -> set[int]:
        pinned = {
            run.pinned_node_id
            for run in self._due
            if run.pinned_node_id is not None and not self._router.knows(run.pinned_node_id)
        }
        return ended_nodes(self._conn, pinned) if pinned else set()

    @staticmethod
    def _needs_no_slot(config: JobConfig) -> bool:
        return config.is_sharded or limits_concurrency(config.blocking)

    def _config(self, run: Run | DueRun) -> JobConfig:
        return self._configs[run.job_id, run.job_revision]

    # --- deciding --------------------------------------------------------------------------------

    def decide(self) -> None:
        """Say for every due run what becomes of it.

        Those that leave in any case go first: nobody stands behind them.
        """
        staying = []
        for run in self._due:
            if run.blocking_key is not None and not self._turns.decides(run):
                self._claims.blocked = True  # somebody ends one of its earlier runs right now
            elif (reason := self._reason_to_skip(run)) is not None:
                self._skip(run, run_moves.skipped(run, reason=reason, now=self._now))
            elif run.pinned_node_id in self._gone and run.pinned_node_id is not None:
                self._skip(run, run_moves.node_gone(run, now=self._now))
            else:
                staying.append(run)
        for run in staying:
            config = self._config(run)
            if run.blocking_key is None or self._may_start(run, config):
                self._start(run, config)

    def _reason_to_skip(self, run: Run) -> str | None:
        if run.tries > 0:
            return None
        if run.is_expired(self._now):
            return "expired"
        paused_at = self._paused_at
        if (
            paused_at is not None
            and run.trigger_id is not None
            and run.scheduled_at > paused_at
            and run.fire_id is None
        ):
            return "paused"
        return None

    def _may_start(self, run: Run, config: JobConfig) -> bool:
        verdict = self._turns.verdict(run, config.blocking)
        match verdict:
            case Verdict.START:
                return True
            case Verdict.WAIT:
                if not run.is_parked:
                    self._moves.append(run_moves.parked(run))
                if config.blocking.strategy is Blocking.COVER_EARLY:
                    asked = self._turns.cover(run, config.blocking)
                    self._claims.stopping = self._claims.stopping or bool(asked)
                    self._moves += asked
            case Verdict.DISCARDED | Verdict.COVERED | Verdict.TOO_MANY_WAITING:
                self._skip(run, run_moves.skipped(run, reason=verdict.value, now=self._now))
        return False

    def _skip(self, run: Run, move: Move) -> None:
        self._moves.append(move)
        if run.blocking_key is not None:
            self._turns.left(run)

    def _start(self, run: Run, config: JobConfig) -> None:
        if not self._router.offers(config.handler):
            self._put_off(run, NO_HANDLER, NO_NODE_DELAY_MS)
        elif run.pinned_node_id is None and not self._router.matches(run, config):
            self._put_off(run, NO_MATCHING_NODE, NO_NODE_DELAY_MS)
        elif run.is_fire:
            self._expand(run, config)
        else:
            self._place(run, config)

    def _place(self, run: Run, config: JobConfig) -> None:
        placed = self._router.place(run, config)
        if placed is None:
            self._claims.blocked = True
            if self._stay_due:
                self._stay_due -= 1
            elif self._window_is_full and self._router.free_slots:
                self._claims.crowded = True
                self._put_off(run, NO_SLOT, self._context.no_slot_delay_ms)
        elif placed.node_id in self._context.connected:  # else another admin, which hears it
            self._placed[placed.node_id].append((run, placed))
            if run.blocking_key is not None:
                self._turns.started(run)

    def _put_off(self, run: Run, reason: str, delay_ms: int) -> None:
        self._moves.append(run_moves.postponed(run, reason=reason, until=self._now + delay_ms))

    def _expand(self, fire: Run, config: JobConfig) -> None:
        """Cut a whole fire into its shards; they are claimed like any other run."""
        pinned_to: list[int | None]
        if config.routing.record.split is Split.BY_NUMBER:
            pinned_to = [fire.pinned_node_id] * config.routing.shards
        elif fire.pinned_node_id is not None:
            pinned_to = [fire.pinned_node_id]
        else:
            pinned_to = [*self._router.matching(fire, config)]
        needed = len(self._shards) + len(pinned_to)
        if needed > len(self._run_ids):
            raise TooFewIds(self._used_ids + needed)
        self._shards += shards_of(fire, config, pinned_to=pinned_to, now=self._now, ids=self._ids)
        self._moves.append(run_moves.expanded(fire, shards=len(pinned_to), now=self._now))
        if fire.blocking_key is not None:
            self._turns.started(fire)

    # --- writing ---------------------------------------------------------------------------------

    def write(self) -> ClaimResult:
        """Write what was decided, and say what is to be sent."""
        insert_fires(self._conn, self._shards)
        moves = _one_each(self._moves)
        if moves:
            self._move(moves)
        claimed = self._take_slots()
        move_runs(self._conn, claimed, slots_are_taken=True)
        given = prepare_inputs(self._conn, [move.after for move in claimed], self._configs)
        for move in claimed:
            run = move.after
            config, node_id = self._config(run), run.node_id or 0
            stop = self._router.must_stop_when_cut_off(node_id, config)
            request = request_of(
                run,
                config,
                stop_when_cut_off=stop,
                state=given.state_of(run),
                checkpoint=given.checkpoint_of(run),
                recovering=run.id in given.recovering,
            )
            self._claims.requests.setdefault(node_id, []).append(request)
        self._claims.targets = {
            node_id: self._router.targets_of(node_id) for node_id in self._claims.requests
        }
        self._claims.claimed, self._claims.settled = len(claimed), len(moves)
        self._claims.more = self._window_is_full and self._router.free_slots > 0
        self._claims.made_up = any(move.after.origin is Origin.MISFIRE for move in claimed)
        return self._claims

    def _move(self, moves: Sequence[Move]) -> None:
        taken = len(self._shards)
        try:
            move_with_follow_ups(
                self._conn,
                moves,
                configs=self._context.configs,
                now=self._now,
                run_ids=self._run_ids[taken:],
            )
        except TooFewIds as more:  # a skipped shard may be the last of its fire, which has children
            raise TooFewIds(self._used_ids + taken + more.count) from more

    def _take_slots(self) -> list[Move]:
        """Take the slots; runs for whose slots another admin was faster stay queued."""
        moves: list[Move] = []
        kept: list[tuple[int, Placement]] = []
        wanted = {node_id: len(chosen) for node_id, chosen in self._placed.items()}
        taken = take_slots(self._conn, wanted, now=self._now) if wanted else {}
        self._claims.outrun = taken != wanted
        for node_id, count in sorted(taken.items()):
            chosen = self._placed[node_id][:count]
            moves += (
                run_moves.claimed(
                    run,
                    node_id=node_id,
                    token=self._context.new_token(),
                    now=self._now,
                    choice=placed.choice,
                )
                for run, placed in chosen
            )
            kept += ((run.job_id, placed) for run, placed in chosen)
        self._memory.keep(kept)
        return moves


def _one_each(moves: Sequence[Move]) -> list[Move]:
    """Several moves of one run are written as one."""
    by_run: dict[int, Move] = {}
    for move in moves:
        earlier = by_run.get(move.before.id)
        by_run[move.before.id] = move if earlier is None else replace(move, before=earlier.before)
    return list(by_run.values())
