"""One process of an executor: called over HTTP, and towards the engine a node like any other."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

import structlog

from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.executors.node import ANY_HANDLER, NodeTargets
from tickwheel_admin.domain.xxl_job.bridge import NODE_SLOTS, RunFacts, XxlAddress, XxlExecutor
from tickwheel_admin.engine.membership.membership import Membership
from tickwheel_admin.engine.ports import Arrival, ClaimTime, NodeHub
from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_admin.services.xxl_job.nodes import DatabaseUnavailable, XxlNodes
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.attempts import RemoteAttempts, Stage
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NoAnswer, NodeCaller, NotSent
from tickwheel_admin.xxl_job.calls import NodeCalls
from tickwheel_admin.xxl_job.dialects import BadAnswer, Meaning
from tickwheel_admin.xxl_job.restarts import RestartSigns
from tickwheel_admin.xxl_job.runs import NodeRuns
from tickwheel_shared.protocol import Cancel, FromNode, Held, Message, Query, RunRequest

log = structlog.get_logger(__name__)

BEAT_SECONDS = 3.0  # between two beats, and at most for one
REFUSED_SECONDS = 0.5  # between two beats while nobody listens there
# Between two beats of an address that has no session: each one in vain doubles it. A process that
# registers is beaten at once.
LONGEST_BEAT_SECONDS = 15.0
LEAVING_SECONDS = 60.0
# After which it is written again whether a node takes new runs: an admin that was frozen, and
# served the node once, may have written what it knew then.
DRAIN_SECONDS = 30.0
# An admin that has not seen for so long that it serves a node ends no runs there: the one that
# serves it may have given their places to others.
SERVED_SECONDS = 6.0
STOP_SECONDS = 3.0  # for calls under way
REFUSALS = 3  # beats in a row that found nobody: its process is gone


class XxlNode:
    """Starts and stops runs at one address, and tells the engine what became of them."""

    def __init__(
        self,
        address: XxlAddress,
        executor: XxlExecutor,
        *,
        caller: NodeCaller,
        nodes: XxlNodes,
        membership: Membership,
        recorder: Recorder,
        hub: NodeHub,
    ) -> None:
        self.address = address
        self.executor_id = executor.id
        self.node_id = 0  # known once it is admitted
        self.token_hash = executor.token_hash
        self.is_open = False
        self.heard = False
        self.heartbeat = 0
        self.sent_targets = NodeTargets()
        self.admins: Sequence[str] = ()
        self.ended = asyncio.Event()
        self.ended.set()
        self.attempts = RemoteAttempts()
        self.seen_at = _now()  # when the database was last asked who serves it
        self.is_restarted = False  # it may be another process now: look at all its runs
        self._nodes = nodes
        self._membership = membership
        self._recorder = recorder
        self._hub = hub
        self._session_id: int | None = None  # None: it is not admitted
        self._has_turn = False  # nobody else has begun to serve it since, as far as is known
        self._refusals = 0
        self._in_vain = 0  # beats without a session in a row that were not answered
        self._signs = RestartSigns()
        self.beat_at = 0.0  # when the next is due
        # A process that is leaving and not admitted is asked until then whether it has runs still.
        self._silent_from = _now() + LEAVING_SECONDS
        self._drained: bool | None = None  # what its row says since it was admitted; None: unknown
        self._drained_at = 0.0  # when that was written
        self._draining = asyncio.Lock()
        self._is_stopping = False  # this admin serves it no more
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_beating = False
        self.calls = NodeCalls(address, executor, caller, refused=self._refused)
        self.runs = NodeRuns(
            self.attempts,
            self.calls,
            nodes,
            node_id=lambda: self.node_id,
            say=self.say,
            spawn=self._spawn,
            limited=lambda: self._hub.update(self),
            may_kill=lambda: not self._is_stopping and _now() - self.seen_at <= SERVED_SECONDS,
        )

    # --- as the engine sees it -------------------------------------------------------------------

    def send(self, messages: Sequence[Message]) -> None:
        """Carry out what the engine asks for; other messages mean nothing to such a node."""
        for message in messages:
            match message:
                case Query():
                    self._spawn(self.runs.answer(message))
                case Cancel():
                    self._spawn(self.runs.cancel(message))
                case _:
                    pass

    def start(self, requests: Sequence[RunRequest], claim: ClaimTime) -> None:
        """Call the process for each of them."""
        self.runs.start(requests, claim)

    @property
    def room(self) -> int | None:
        """Limited while calls that start runs go unanswered."""
        return self.runs.room

    def opened(self) -> None:
        """What it held is recorded: it may be given runs."""
        if self._session_id is not None:
            self.is_open = True
            self._hub.update(self)
            self._membership.opened()

    def close(self, code: int, reason: str) -> None:
        """End the session; the next good beat begins another one."""
        if self._session_id is None:
            return
        log.info("xxl.node_closed", node_id=self.node_id, reason=reason)
        session_id, self._session_id = self._session_id, None
        self.is_open = False
        self._hub.update(self)
        self._hub.remove(self)
        self._spawn(self._part(session_id))

    async def _part(self, session_id: int) -> None:
        try:
            await self._membership.disconnected(node_id=self.node_id, session_id=session_id)
        finally:
            self.ended.set()  # else it could never be stopped

    async def stop(self) -> None:
        """Let calls under way end, then the session."""
        self._is_stopping = True
        self.is_open = False
        self._hub.update(self)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        self.close(1001, "this admin serves it no more")
        await self.ended.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work), name="xxl-node")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # One that is cancelled before its first step never comes to await it.
        task.add_done_callback(lambda _: work.close())

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (DatabaseUnavailable, Unavailable) as error:
            # Nothing is lost: the sweeper asks about whatever was not confirmed.
            log.warning("xxl.database_unavailable", address=self.address.address, cause=str(error))
        except Exception:  # one broken call must not end the others; its traceback is logged
            log.exception("xxl.call_failed", address=self.address.address)

    # --- whether it lives ------------------------------------------------------------------------

    @property
    def is_admitted(self) -> bool:
        """Whether it has a session at this admin."""
        return self._session_id is not None

    @property
    def is_missing(self) -> bool:
        """Whether it has no session, and did not answer when it was last asked."""
        return self._session_id is None and self._in_vain > 0

    @property
    def is_beating(self) -> bool:
        """Whether a beat is under way."""
        return self._is_beating

    def is_beat_due(self, now: float) -> bool:
        """Whether to beat it: no beat is under way, or was a moment ago."""
        if self._is_beating or now < self.beat_at:
            return False
        # Where one has ended that took itself out, nobody may answer who is meant.
        return not (self.address.is_leaving and not self.is_admitted and now > self._silent_from)

    def update(self, address: XxlAddress, executor: XxlExecutor) -> None:
        """What the database says of it now."""
        if address.registered_at != self.address.registered_at:
            self.beat_at = 0.0 if not self.is_admitted else self.beat_at
        if address.is_leaving != self.address.is_leaving and self.is_admitted:
            self.beat_at = 0.0  # which writes it
            if not address.is_leaving:
                self.is_restarted = True  # it registers again: a new process, perhaps
        self.address = self.calls.address = address
        self.calls.executor = executor
        if self._session_id is not None and self.token_hash != executor.token_hash:
            self.token_hash = executor.token_hash

    def beat(self, now: float) -> None:
        """Start a beat."""
        self.beat_at = now + BEAT_SECONDS
        self._is_beating = True
        self._spawn(self._beat())

    async def _beat(self) -> None:
        try:
            answer, is_new = await self.calls.ask_whether_it_lives(seconds=BEAT_SECONDS)
        except ConnectionRefused:
            await self._nobody_listens()
            self._beat_later()
            return
        except (NotSent, NoAnswer, BadAnswer):
            self._beat_later()
            return  # silence: its lease ends by itself
        finally:
            self._is_beating = False
        self._refusals = 0
        if self._signs.answered(_now(), is_new_connection=is_new):
            self._is_replaced()
        if dialects.meaning(answer) is not Meaning.OK:
            self._beat_later()
            self.calls.failed(answer.message)
            return
        self._in_vain = 0
        self.calls.beat()
        self.heard = True
        self.heartbeat += 1
        if self._session_id is not None:
            await self._write_draining()
        elif not self._is_stopping:
            await self._admit()

    async def _write_draining(self) -> None:
        """Write whether it takes new runs, if that is not written yet; tried with each beat."""
        if self._is_stopping:
            return  # another admin knows better by now
        async with self._draining:
            wanted = self.address.is_leaving
            is_old = _now() - self._drained_at >= DRAIN_SECONDS
            if (self._drained != wanted or is_old) and await self._membership.drain(
                node_id=self.node_id, draining=wanted
            ):
                self._drained, self._drained_at = wanted, _now()

    def _beat_later(self) -> None:
        """Whoever is not there is asked more and more rarely."""
        if self._session_id is None:
            self._in_vain += 1
            seconds = BEAT_SECONDS * 2.0 ** min(self._in_vain - 1, 10)
            self.beat_at = _now() + min(seconds, LONGEST_BEAT_SECONDS)

    def _refused(self) -> None:
        """Some call found nobody who listens."""
        self._signs.refused()
        self.runs.replaced_at = _now()
        if self._session_id is not None:
            self.beat_at = 0.0

    def _is_replaced(self) -> None:
        """Another process answers than before, it seems: what it does not run is lost."""
        self.runs.replaced_at = _now()
        if self._session_id is not None:
            log.info("xxl.process_replaced", node_id=self.node_id, address=self.address.address)
            self.is_restarted = True

    async def _nobody_listens(self) -> None:
        self._refusals += 1
        self.beat_at = _now() + REFUSED_SECONDS
        if self._refusals < REFUSALS:
            return
        self.beat_at = _now() + BEAT_SECONDS
        if self._session_id is None:
            return
        log.info("xxl.process_gone", node_id=self.node_id, address=self.address.address)
        await self._nodes.process_gone(self.address)
        self.address = self.calls.address = replace(
            self.address, incarnation=self.address.incarnation + 1
        )
        if self.address.is_leaving and not await self._nodes.live_runs(self.node_id):
            # Asked of the ledger: other admins may have sent runs here, too.
            await self._membership.goodbye(node_id=self.node_id)
        for attempt in self.attempts:
            self.attempts.remove(attempt)
        self.close(1001, "nobody listens there any more")

    async def _admit(self) -> None:
        address = self.address
        if not self._has_turn:
            self.attempts.take_over(await self._nodes.begin_turn(address), _now())
            self._has_turn = True
        key = f"{address.executor_id} {address.address} {address.incarnation}"
        admitted = await self._membership.admit(
            Arrival(
                executor_id=self.executor_id,
                node_key=hashlib.sha256(key.encode()).hexdigest()[:32],
                name=_name_of(address.address),
                sdk="xxl-job",
                slots=NODE_SLOTS,
                handlers=[ANY_HANDLER],
                unstoppable=[ANY_HANDLER],  # it cannot know that its lease is over
                labels={},
                weight=1,
                address=address.address[:100],
            )
        )
        self.node_id, self._session_id = admitted.node_id, admitted.session_id
        self.ended.clear()
        self.heard = True
        self.runs.breaker.answered()  # a beat; and what went unanswered before was long ago
        self._drained = None  # as the row was left by a session before, perhaps at another admin
        await self._write_draining()
        replaced = self._hub.add(self)
        if replaced is not None and replaced is not self:
            replaced.close(1001, "a newer session of the same node")
        # Of an admin before this one, or of this one before its session ended.
        self.adopt(await self._nodes.live_runs(self.node_id))
        running = [each.key for each in self.attempts if each.stage is Stage.RUNNING]
        log.info("xxl.node_admitted", node_id=self.node_id, address=address.address)
        self.say(Held(runs=running))

    def adopt(self, live: Iterable[RunFacts]) -> None:
        """Look after runs of this node that the ledger knows, and this admin does not."""
        for facts in live:
            if self.attempts.get(facts.run, facts.attempt) is None:
                self.runs.adopt(facts)

    def say(self, *messages: FromNode) -> None:
        """Tell the recorder."""
        self._recorder.receive(self, messages)


def _name_of(address: str) -> str:
    return address.partition("://")[2].partition("/")[0][:200]


def _now() -> float:
    return asyncio.get_running_loop().time()
