"""What becomes of each due run of a claim; nothing here reads or writes the database."""

from __future__ import annotations

from collections import defaultdict

from tickwheel_admin.domain.claims.router import Placement
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import secrets_of_run
from tickwheel_admin.domain.planning.fires import shards_of
from tickwheel_admin.domain.routing.strategy import Split
from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.blocking import Blocking, Verdict
from tickwheel_admin.domain.runs.run import (
    NO_HANDLER,
    NO_MATCHING_NODE,
    NO_SCRIPTS,
    NO_SECRET,
    NO_SLOT,
    PUT_OFF_MS,
    UNREADABLE_SECRET,
    Move,
    Run,
)
from tickwheel_admin.engine.dispatcher.claim_inputs import ClaimContext, ClaimInputs
from tickwheel_admin.store.database.ids import TooFewIds

# A run for which there is no node is put off for this long, so that it hides no others.
NO_NODE_DELAY_MS = PUT_OFF_MS
FIRST_IN_LINE = 25  # runs without a slot that stay due in any case: they get the next free slot


class ClaimDecisions:
    """The decisions about one batch, and what they add up to."""

    def __init__(self, inputs: ClaimInputs, context: ClaimContext) -> None:
        self._inputs = inputs
        self._context = context
        self._router = inputs.router
        self._concurrency = inputs.concurrency
        self._ids = iter(inputs.run_ids)
        # Runs that stay due must not fill this batch, or the next one reads the same again.
        self._stay_due = 0 if inputs.memory.is_full else FIRST_IN_LINE
        self.moves: list[Move] = []  # everything but claims
        self.shards: list[Run] = []  # new ones
        self.placed: defaultdict[int, list[tuple[Run, Placement]]] = defaultdict(list)  # by node
        self.blocked = not inputs.has_free_slots  # runs are due that no node has a slot for
        self.crowded = False  # so many that some were put off
        self.stopping = False  # live runs are asked to end for newer ones

    def decide(self) -> None:
        """Decide every due run; those that leave in any case first: no run waits for them.

        Raises:
            TooFewIds: fires are to be cut into more shards than there are ids.
        """
        staying = []
        for run in self._inputs.due:
            if run.blocking_key is not None and not self._concurrency.decides(run):
                self.blocked = True  # an earlier run of its job is being ended right now
            elif (reason := self._reason_to_skip(run)) is not None:
                self._skip(run, run_moves.skipped(run, reason=reason, now=self._inputs.now))
            elif run.pinned_node_id in self._inputs.ended_nodes:
                self._skip(run, run_moves.node_gone(run, now=self._inputs.now))
            else:
                staying.append(run)
        for run in staying:
            config = self._inputs.config(run)
            if run.blocking_key is None or self._may_start(run, config):
                self._start(run, config)

    def _reason_to_skip(self, run: Run) -> str | None:
        if run.tries > 0:
            return None
        if run.is_expired(self._inputs.now):
            return "expired"
        paused_at = self._inputs.paused_at
        if (
            paused_at is not None
            and run.trigger_id is not None
            and run.scheduled_at > paused_at
            and run.fire_id is None
        ):
            return "paused"
        return None

    def _may_start(self, run: Run, config: JobConfig) -> bool:
        verdict = self._concurrency.verdict(run, config.blocking)
        match verdict:
            case Verdict.START:
                return True
            case Verdict.WAIT:
                if not run.is_parked:
                    self.moves.append(run_moves.parked(run))
                if config.blocking.strategy is Blocking.COVER_EARLY:
                    stops = self._concurrency.cover(run, config.blocking)
                    self.stopping = self.stopping or bool(stops)
                    self.moves += stops
            case Verdict.DISCARDED | Verdict.COVERED | Verdict.TOO_MANY_WAITING:
                reason = verdict.value
                self._skip(run, run_moves.skipped(run, reason=reason, now=self._inputs.now))
        return False

    def _skip(self, run: Run, move: Move) -> None:
        self.moves.append(move)
        if run.blocking_key is not None:
            self._concurrency.left(run)

    def _start(self, run: Run, config: JobConfig) -> None:
        if run.is_workflow:  # it needs no node; its steps are written with this move
            self.moves.append(run_moves.expanded(run, shards=1, now=self._inputs.now))
            if run.blocking_key is not None:
                self._concurrency.started(run)
        elif config.script is not None and not self._inputs.scripts_allowed:
            self._put_off(run, NO_SCRIPTS, NO_NODE_DELAY_MS)
        elif not self._router.offers(config.handler):
            self._put_off(run, NO_HANDLER, NO_NODE_DELAY_MS)
        elif run.pinned_node_id is None and not self._router.matches(run, config):
            self._put_off(run, NO_MATCHING_NODE, NO_NODE_DELAY_MS)
        elif (why := self._lacks_secret(run, config)) is not None:
            self._put_off(run, why, NO_NODE_DELAY_MS)
        elif run.is_fire:
            self._expand(run, config)
        else:
            self._place(run, config)

    def _lacks_secret(self, run: Run, config: JobConfig) -> str | None:
        secrets = self._inputs.secrets
        lacking = secrets_of_run(config, run.parameters).difference(secrets.values)
        if not lacking:
            return None
        return UNREADABLE_SECRET if lacking <= set(secrets.unreadable) else NO_SECRET

    def _place(self, run: Run, config: JobConfig) -> None:
        pools = self._inputs.pools
        if not pools.has_room(run, config):
            self.blocked = True
            if self._router.has_room(run, config):
                pools.waits(run, config)
            return
        placement = self._router.place(run, config)
        if placement is None:
            self.blocked = True
            if self._stay_due:
                self._stay_due -= 1
            elif self._inputs.window_is_full and self._router.free_slots:
                self.crowded = True
                self._put_off(run, NO_SLOT, self._context.no_slot_delay_ms)
        elif placement.node_id in self._context.connected:  # else an admin with a socket claims it
            self.placed[placement.node_id].append((run, placement))
            pools.started(run, config)
            if run.blocking_key is not None:
                self._concurrency.started(run)

    def _put_off(self, run: Run, reason: str, delay_ms: int) -> None:
        until = self._inputs.now + delay_ms
        self.moves.append(run_moves.postponed(run, reason=reason, until=until))

    def _expand(self, fire: Run, config: JobConfig) -> None:
        """Cut a whole fire into its shards; they are claimed like any other run."""
        pinned_to: list[int | None]
        if config.routing.record.split is Split.BY_NUMBER:
            pinned_to = [fire.pinned_node_id] * config.routing.shards
        elif fire.pinned_node_id is not None:
            pinned_to = [fire.pinned_node_id]
        else:
            pinned_to = [*self._router.matching(fire, config)]
        needed = len(self.shards) + len(pinned_to)
        if needed > len(self._inputs.run_ids):
            raise TooFewIds(self._inputs.used_ids + needed)
        now = self._inputs.now
        self.shards += shards_of(fire, config, pinned_to=pinned_to, now=now, ids=self._ids)
        self.moves.append(run_moves.expanded(fire, shards=len(pinned_to), now=now))
        if fire.blocking_key is not None:
            self._concurrency.started(fire)
