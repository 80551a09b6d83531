"""Reports of nodes are collected, committed in batches, and only then acknowledged."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence

import structlog

from tickwheel_admin.engine.batching import write_or_bisect
from tickwheel_admin.engine.dispatcher.loop import Dispatcher
from tickwheel_admin.engine.fault_points import before_commit, reached
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.ports import HeldPart, NodeMessage, RunTracer, Session, StoredFirst
from tickwheel_admin.engine.recorder.inbox import Inbox
from tickwheel_admin.engine.recorder.transaction import RecordResult, record
from tickwheel_admin.services.events.events import QUEUED, RUNS, TRIGGERS, Events, log_topic
from tickwheel_admin.store.database.database import DatabaseUnavailable, Store
from tickwheel_admin.store.database.ids import Ids, IdsAhead
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_shared.protocol import (
    FromNode,
    LogChunk,
    LogReceipt,
    Message,
    Outcome,
    ReceiptCode,
    Result,
    ResultReceipt,
)

log = structlog.get_logger(__name__)

IDS_IN_LOG = 5  # of runs whose reports were ignored; the rest are counted


class Recorder(Loop):
    """While one batch is committed, the next one fills: no fixed delay, no commit per message."""

    interval_seconds = 1.0

    def __init__(
        self,
        store: Store,
        ids: Ids,
        dispatcher: Dispatcher,
        events: Events,
        *,
        configs: JobConfigs,
        tracer: RunTracer | None = None,
    ) -> None:
        super().__init__()
        self._tracer = tracer
        self._store = store
        self._ids = ids
        self._dispatcher = dispatcher
        self._events = events
        self._configs = configs
        self._waiting = Inbox()
        self._ids_ahead = IdsAhead()
        self._recorded = asyncio.Event()  # set, and replaced, when there may be room again

    def receive(self, session: Session, messages: Sequence[FromNode | StoredFirst]) -> None:
        """Take messages for the next batch."""
        self._waiting.add(session, messages)
        self.wake()

    def disconnected(self, session: Session) -> None:
        """The socket of a node has closed."""
        _log_dropped(self._waiting.close(session))

    @property
    def backlog(self) -> int:
        """Messages that wait to be recorded."""
        return len(self._waiting)

    def has_room(self, session: Session) -> bool:
        """Whether the node may send more."""
        return self._waiting.has_room_for(session)

    async def room(self, session: Session) -> None:
        """Wait until the node may send more; its socket is read only then."""
        while not self.has_room(session):
            await self._recorded.wait()

    async def run_once(self) -> bool:
        if not self._waiting:
            return False
        now = asyncio.get_running_loop().time()
        batch = self._waiting.next_batch(now)
        try:
            if batch:
                await write_or_bisect(batch, self._write, self._give_up)
        except DatabaseUnavailable:
            # Nothing was acknowledged. Kept in order, and recorded twice at worst, which is once.
            self._waiting.put_back(batch)
            raise
        self._recorded.set()
        self._recorded = asyncio.Event()
        rest = self._waiting.rests_for(now)
        if rest is not None:
            self.aim_at(now + rest)
            return False
        return bool(self._waiting)

    async def _write(self, batch: Sequence[NodeMessage]) -> None:
        asked_at = 0.0

        async def write(run_ids: Sequence[int]) -> RecordResult:
            nonlocal asked_at
            asked_at = asyncio.get_running_loop().time()
            return await self._store.run(
                before_commit("recording", record), batch, self._configs, run_ids
            )

        # Steps follow steps: as many ids as batches of late took are at hand, lest each transaction
        # that lets workflows go on be begun twice.
        recorded = await self._ids.run_with_ids("run", write, at_first=self._ids_ahead.count)
        if recorded.freed:  # runs have ended, so steps could follow
            self._ids_ahead.used(recorded.steps)
        committed_at = asyncio.get_running_loop().time()
        ignored = Counter(session for _, session, _ in recorded.ignored)
        _log_dropped(self._waiting.rate(ignored, batch))
        reached("recorded")
        self._after_commit(recorded)
        reached("acknowledged")
        if self._tracer is not None and recorded.ended:
            self._tracer.recorded(
                recorded.ended,
                at=recorded.recorded_at,
                committed_ms=(committed_at - asked_at) * 1000,
            )

    def _after_commit(self, recorded: RecordResult) -> None:
        replies: defaultdict[Session, list[Message]] = defaultdict(list)
        for session, reply in recorded.replies:
            replies[session].append(reply)
        for session, told in replies.items():
            session.send(told)
        for session in recorded.opened:
            session.opened()
        for node_id, handler, why in recorded.refusals:
            self._dispatcher.avoid(node_id, handler, why)
        _log_ignored(recorded.ignored)
        if recorded.unkept:
            log.warning("state.not_kept", run_ids=list(recorded.unkept))
        if recorded.moved:
            self._events.publish(RUNS)
        if recorded.freed:
            self._dispatcher.slots_freed(recorded.freed)
        if recorded.queued:
            self._events.publish(QUEUED)
        if recorded.armed:
            self._events.publish(TRIGGERS)
        for run_id in recorded.logged_runs:
            self._events.publish(log_topic(run_id))

    async def _give_up(self, culprit: NodeMessage, reason: str) -> None:
        """A message that the database refuses must not stop the others, nor be sent again."""
        message = culprit.message
        log.error("report.unstorable", type=type(message).__name__, reason=reason)
        if isinstance(message, Result) and message.message != _UNSTORABLE:
            bare = Result(
                run=message.run,
                attempt=message.attempt,
                token=message.token,
                outcome=Outcome.FAILED,
                duration_ms=message.duration_ms,
                message=_UNSTORABLE,
            )
            await write_or_bisect([NodeMessage(culprit.session, bare)], self._write, self._give_up)
            return
        reply = _receipt_for_nothing(message)
        if reply is not None:
            culprit.session.send([reply])


def _log_ignored(ignored: Sequence[tuple[str, Session, int]]) -> None:
    """One event for each reason and node: a node that sends much must not fill our log."""
    runs: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for reason, session, run_id in ignored:
        runs[reason, session.node_id].append(run_id)
    for (reason, node_id), run_ids in runs.items():
        log.warning(
            "report.ignored",
            reason=reason,
            node_id=node_id,
            count=len(run_ids),
            run_ids=run_ids[:IDS_IN_LOG],
        )


def _log_dropped(count: int) -> None:
    if count:
        log.warning("report.ignored", reason="suspect_left", count=count)


_UNSTORABLE = "The result could not be stored; the admin's log says why."


def _receipt_for_nothing(message: FromNode | HeldPart | StoredFirst) -> Message | None:
    if isinstance(message, Result):
        return ResultReceipt(
            run=message.run,
            attempt=message.attempt,
            token=message.token,
            receipt=ReceiptCode.REFUSED,
            reason="unstorable",
        )
    if isinstance(message, LogChunk):
        return LogReceipt(run=message.run, attempt=message.attempt, first_seq=message.first_seq)
    return None
