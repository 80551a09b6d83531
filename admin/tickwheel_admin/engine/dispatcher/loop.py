"""Sends due runs to nodes: they are claimed under locks, and sent after the commit."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import structlog

from tickwheel_admin.domain.claims.order import OLDEST_FIRST_EVERY
from tickwheel_admin.domain.routing.strategy import RandomSource
from tickwheel_admin.domain.runs.run import PUT_OFF_MS
from tickwheel_admin.engine.catch_up_pace import CatchUpPace
from tickwheel_admin.engine.dispatcher.claim import ClaimResult, claim_queued_runs
from tickwheel_admin.engine.dispatcher.claim_inputs import NO_SLOT_DELAY_MS, ClaimContext
from tickwheel_admin.engine.fault_points import before_commit, reached
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.ports import ClaimTime, NodeLinks, RunTracer
from tickwheel_admin.services.events.events import CANCEL, RUNS, Events
from tickwheel_admin.services.secrets.values import SecretReader
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids, IdsAhead
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.jobs.scripts import ScriptSources
from tickwheel_admin.store.runs.due import due_executors, executors_with_due_workflows
from tickwheel_shared.protocol import Refusal

log = structlog.get_logger(__name__)

RUNS_PER_BATCH = 500
# A claim of more takes longer than another executor should wait for its turn: only where none has
# runs that are due, or will be within this time.
MOST_RUNS_PER_BATCH = 1_000
OTHERS_WITHIN_MS = 1_000
# While other admins claim the first runs, this one searches at most so many batches. If all of them
# are being claimed, it searches again when the others will have committed.
MAX_LOOKS = 4
CONTENDED_SECONDS = 0.02
# An executor with a node that hangs, none of whose due runs could start, is not claimed for again
# for so long, unless a slot of it comes free here. Passes for other executors would read thousands
# of runs in vain.
HANGING_SECONDS = 0.25
AVOID_SECONDS = 5.0  # how long a node that refused a handler is passed over
DRAINING_SECONDS = 0.3  # the same, when it refuses all runs


class Dispatcher(Loop):
    """Claims executor by executor, so that a full one never hides the others."""

    interval_seconds = 0.5

    def __init__(
        self,
        store: Store,
        ids: Ids,
        links: NodeLinks,
        events: Events,
        *,
        random: RandomSource,
        new_token: Callable[[], str],
        configs: JobConfigs,
        secrets: SecretReader,
        tracer: RunTracer | None = None,
        pace: CatchUpPace | None = None,
    ) -> None:
        """Claim for this admin; `pace` is told how late fires are claimed."""
        super().__init__()
        self._tracer = tracer
        self._pace = pace
        self._contended: dict[int, float] = {}  # executor -> when its runs are claimed again
        self._hanging: dict[int, float] = {}  # the same, of those with a node that hangs
        self._crowded: dict[int, _Crowd] = {}  # by executor
        self._looks: dict[int, int] = {}  # executor -> batches to search, if several
        self._store = store
        self._ids = ids
        self._ids_ahead = IdsAhead()  # for the first steps of workflows
        self._links = links
        self._events = events
        self._random = random
        self._new_token = new_token
        self._configs = configs
        self._sources = ScriptSources()
        self._secrets = secrets
        self._claims = 0
        self._looked_far_at = -math.inf  # for workflows of executors without a node here
        self._blocked = False
        self._avoided: dict[tuple[int, str], float] = {}
        self.stopped = False  # shutting down: claim nothing more

    async def run_once(self) -> bool:
        if self.stopped:
            return False
        connected = set(self._links.connected().values())
        asked_at = asyncio.get_running_loop().time()
        due = await self._store.read(due_executors, connected) if connected else []
        self._blocked = False
        more = await self._claim_far_workflows(connected)
        self._contended = {key: at for key, at in self._contended.items() if at > asked_at}
        self._hanging = {key: at for key, at in self._hanging.items() if at > asked_at}
        most = RUNS_PER_BATCH if _several_soon(due) else MOST_RUNS_PER_BATCH
        for executor_id in self._rotated([each for each, is_due, _ in due if is_due]):
            if executor_id not in self._contended and executor_id not in self._hanging:
                more = await self._claim(executor_id, most=most) or more
        later = [asked_at + wait_ms / 1000 for _, _, wait_ms in due if wait_ms is not None]
        self.aim_at(min([*later, *self._contended.values()], default=None))
        return more

    def slots_freed(self, executor_ids: Collection[int]) -> None:
        """Attempts of these executors ended: claim at once if a run waits for a slot."""
        was_hanging = [self._hanging.pop(each, None) for each in executor_ids]
        if self._blocked or any(was_hanging):
            self.wake()

    def avoid(self, node_id: int, handler: str, why: Refusal) -> None:
        """Pass over a node that just refused this handler."""
        # That a node drains is also in its row, and there the end of it counts at once.
        seconds = DRAINING_SECONDS if why is Refusal.DRAINING else AVOID_SECONDS
        until = asyncio.get_running_loop().time() + seconds
        self._avoided[node_id, handler] = until

    async def _claim_far_workflows(self, connected: Collection[int]) -> bool:
        """Begin workflows of executors without a node here: they need none, their steps may.

        Looked at now and then only, for it is asked of every executor.
        """
        now = asyncio.get_running_loop().time()
        if now - self._looked_far_at < self.interval_seconds:
            return False
        self._looked_far_at = now
        more = False
        for executor_id in sorted(await self._store.read(executors_with_due_workflows)):
            if executor_id not in connected:
                more = await self._claim(executor_id, only_workflows=True) or more
        return more

    async def _claim(
        self, executor_id: int, *, most: int = RUNS_PER_BATCH, only_workflows: bool = False
    ) -> bool:
        connected = self._links.connected()
        self._claims += 1
        rooms = self._links.rooms()
        context = ClaimContext(
            connected=frozenset(connected),
            avoided=self._still_avoided(),
            rooms=rooms,
            limit=RUNS_PER_BATCH,
            most=most,
            looks=self._looks.get(executor_id, 1),
            oldest_first=self._claims % OLDEST_FIRST_EVERY == 0,
            random=self._random,
            new_token=self._new_token,
            configs=self._configs,
            sources=self._sources,
            secrets=self._secrets,
            no_slot_delay_ms=self._no_slot_delay(executor_id),
            tracer=self._tracer,
            only_workflows=only_workflows,
        )

        asked_at = 0.0

        async def claim(run_ids: Sequence[int]) -> ClaimResult:
            nonlocal asked_at
            asked_at = asyncio.get_running_loop().time()
            return await self._store.run(
                before_commit("claiming", claim_queued_runs),
                executor_id,
                replace(context, run_ids=run_ids),
            )

        claims = await self._ids.run_with_ids("run", claim, at_first=self._ids_ahead.count)
        self._ids_ahead.used(claims.steps)
        committed_at = asyncio.get_running_loop().time()
        self._blocked = self._blocked or claims.blocked
        if self._pace is not None and claims.late_ms is not None:
            self._pace.claimed_late(claims.late_ms, committed_at)
        self._send(claims, ClaimTime(claims.claimed_at, asked_at))
        if self._tracer is not None and claims.traced:
            sent_at = asyncio.get_running_loop().time()
            self._tracer.claimed(
                claims.traced,
                at=claims.claimed_at,
                committed_ms=(committed_at - asked_at) * 1000,
                sent_ms=(sent_at - asked_at) * 1000,
            )
        if claims.crowded:
            self._note_crowd(executor_id)
        self._note_contention(executor_id, claims)
        if claims.stopping:
            self._events.publish(CANCEL)  # the sweeper tells their nodes
        if claims.outrun:
            return True
        if claims.pools_held and not claims.claimed and not claims.settled:
            self._contended[executor_id] = asyncio.get_running_loop().time() + CONTENDED_SECONDS
            return False
        hangs = any(connected.get(node_id) == executor_id for node_id in rooms)
        if hangs and not (claims.claimed or claims.settled or claims.stopping):
            self._hanging[executor_id] = asyncio.get_running_loop().time() + HANGING_SECONDS
        return claims.settled > 0 or (claims.claimed > 0 and (claims.more or not claims.blocked))

    def _send(self, claims: ClaimResult, time: ClaimTime) -> None:
        if claims.targets:
            self._links.set_targets(claims.targets)
        for node_id, requests in claims.requests.items():
            reached("claimed")
            if not self._links.start(node_id, requests, time):
                # The sweeper asks the node, or ends the runs with it; none is simply queued again.
                log.info("run.unsent", node_id=node_id, runs=len(requests))
            reached("sent")
        if claims.claimed:
            log.debug("run.dispatched", runs=claims.claimed)
            self._events.publish(RUNS)

    def _rotated(self, executor_ids: list[int]) -> list[int]:
        """Begin with a random one, so that no executor is always last."""
        if not executor_ids:
            return []
        start = self._random.randrange(len(executor_ids))
        return executor_ids[start:] + executor_ids[:start]

    def _no_slot_delay(self, executor_id: int) -> int:
        """How long runs are put off that wait for a slot: longer while more of them do.

        Otherwise ten thousand runs that wait for one node would be written twice a second.
        """
        crowd = self._crowded.get(executor_id)
        if crowd is None or crowd.ends_at <= asyncio.get_running_loop().time():
            self._crowded.pop(executor_id, None)
            return NO_SLOT_DELAY_MS
        return min(NO_SLOT_DELAY_MS * (1 + crowd.claims), PUT_OFF_MS)

    def _note_crowd(self, executor_id: int) -> None:
        crowd = self._crowded.get(executor_id)
        self._crowded[executor_id] = _Crowd(
            claims=1 if crowd is None else crowd.claims + 1,
            ends_at=asyncio.get_running_loop().time() + 2 * PUT_OFF_MS / 1000,
        )

    def _note_contention(self, executor_id: int, claims: ClaimResult) -> None:
        """Search further next time, if other admins are claiming the first runs."""
        self._looks.pop(executor_id, None)
        if claims.looks == 1:
            return
        self._looks[executor_id] = min(claims.looks, MAX_LOOKS)
        if not claims.claimed and not claims.settled:
            self._contended[executor_id] = asyncio.get_running_loop().time() + CONTENDED_SECONDS

    def _still_avoided(self) -> frozenset[tuple[int, str]]:
        now = asyncio.get_running_loop().time()
        self._avoided = {key: until for key, until in self._avoided.items() if until > now}
        return frozenset(self._avoided)


def _several_soon(due: Sequence[tuple[int, bool, int | None]]) -> bool:
    """Whether several of these executors have runs that are due now or soon."""
    soon = (
        is_due or (wait_ms is not None and wait_ms <= OTHERS_WITHIN_MS)
        for _, is_due, wait_ms in due
    )
    return sum(soon) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Crowd:
    """Runs of an executor that wait for their own nodes, while other nodes have free slots."""

    claims: int  # claims in a row that put some of them off
    ends_at: float  # unless another claim puts some off before
