"""What nodes say is collected and committed in batches; only then is it acknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import structlog

from tickwheel_admin.engine.dispatcher import Dispatcher
from tickwheel_admin.engine.halving import halved
from tickwheel_admin.engine.kill_points import before_commit, reached
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.ports import Received, Session
from tickwheel_admin.engine.recording import Recorded, record
from tickwheel_admin.services.events import QUEUED, RUNS, TRIGGERS, Events, log_topic
from tickwheel_admin.store.database import DatabaseUnavailable, Store
from tickwheel_admin.store.ids import Ids
from tickwheel_admin.store.job_configs import JobConfigs
from tickwheel_shared.protocol import (
    Checkpoint,
    FromNode,
    LogChunk,
    LogReceipt,
    Message,
    Outcome,
    Receipt,
    Result,
    ResultReceipt,
)

log = structlog.get_logger(__name__)

MESSAGES_PER_BATCH = 2_000  # of a thousand runs that were accepted and ended at once
TEXT_PER_BATCH = 4_000_000  # characters of log lines, results and checkpoints
LINE_OVERHEAD = 100  # of a log line in memory, in characters
# In memory; beyond either, sockets are not read.
MAX_WAITING = 20_000  # messages
MAX_WAITING_TEXT = 64_000_000  # characters


class Recorder(Loop):
    """While one batch is being committed the next one gathers: no fixed delay, no lone commits."""

    interval_seconds = 1.0

    def __init__(
        self,
        store: Store,
        ids: Ids,
        dispatcher: Dispatcher,
        events: Events,
        *,
        configs: JobConfigs,
    ) -> None:
        super().__init__()
        self._store = store
        self._ids = ids
        self._dispatcher = dispatcher
        self._events = events
        self._configs = configs
        self._waiting: deque[Received] = deque()
        self._text = 0  # characters in them
        self._room = asyncio.Event()
        self._room.set()

    def receive(self, session: Session, messages: Sequence[FromNode]) -> None:
        """Take messages for the next batch."""
        self._waiting.extend(Received(session, message) for message in messages)
        self._text += sum(map(_text_of, messages))
        if not self.has_room:
            self._room.clear()
        self.wake()

    @property
    def backlog(self) -> int:
        """Messages that wait to be recorded."""
        return len(self._waiting)

    async def room(self) -> None:
        """Wait until there is room for more; sockets are read only then."""
        await self._room.wait()

    async def run_once(self) -> bool:
        if not self._waiting:
            return False
        batch, text = self._next_batch()
        self._text -= text
        try:
            await halved(batch, self._write, self._give_up)
        except DatabaseUnavailable:
            # Nothing was acknowledged. Kept in order, and recorded twice at worst, which is once.
            self._waiting.extendleft(reversed(batch))
            self._text += text
            raise
        if self.has_room:
            self._room.set()
        return bool(self._waiting)

    def _next_batch(self) -> tuple[list[Received], int]:
        """What the next transaction takes, and the characters in it."""
        batch: list[Received] = []
        text = 0
        while self._waiting and len(batch) < MESSAGES_PER_BATCH and text < TEXT_PER_BATCH:
            batch.append(self._waiting.popleft())
            text += _text_of(batch[-1].message)
        return batch, text

    @property
    def has_room(self) -> bool:
        """Whether sockets may be read."""
        return len(self._waiting) < MAX_WAITING and self._text < MAX_WAITING_TEXT

    async def _write(self, batch: Sequence[Received]) -> None:
        async def write(run_ids: Sequence[int]) -> Recorded:
            return await self._store.run(
                before_commit("recording", record), batch, self._configs, run_ids
            )

        recorded = await self._ids.run_with_ids("run", write)
        reached("recorded")
        self._tell(recorded)
        reached("acknowledged")

    def _tell(self, recorded: Recorded) -> None:
        for session, reply in recorded.replies:
            session.send([reply])
        for session in recorded.opened:
            session.opened()
        for node_id, handler in recorded.refusals:
            self._dispatcher.avoid(node_id, handler)
        for reason, node_id, run_id in recorded.ignored:
            log.warning("report.ignored", reason=reason, node_id=node_id, run_id=run_id)
        if recorded.unkept:
            log.warning("state.not_kept", run_ids=list(recorded.unkept))
        if recorded.moved:
            self._events.publish(RUNS)
        if recorded.freed:
            self._dispatcher.slot_freed()
        if recorded.queued:
            self._events.publish(QUEUED)
        if recorded.armed:
            self._events.publish(TRIGGERS)
        for run_id in recorded.logged_runs:
            self._events.publish(log_topic(run_id))

    async def _give_up(self, culprit: Received, reason: str) -> None:
        """One message that the database refuses must neither stop the others nor come again."""
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
            await halved([Received(culprit.session, bare)], self._write, self._give_up)
            return
        reply = _receipt_for_nothing(message)
        if reply is not None:
            culprit.session.send([reply])


def _text_of(message: FromNode) -> int:
    """Characters of what may be long; the rest of a message is counted by `MAX_WAITING`."""
    match message:
        case LogChunk():
            return sum(len(line.text) + LINE_OVERHEAD for line in message.lines)
        case Result():
            parts = (message.result, message.state, message.checkpoint)
            return len(message.message) + sum(len(bytes(part)) for part in parts)
        case Checkpoint():
            return len(message.data)
    return 0


_UNSTORABLE = "The result could not be stored; the admin's log says why."


def _receipt_for_nothing(message: FromNode) -> Message | None:
    if isinstance(message, Result):
        return ResultReceipt(
            run=message.run,
            attempt=message.attempt,
            token=message.token,
            receipt=Receipt.REFUSED,
            reason="unstorable",
        )
    if isinstance(message, LogChunk):
        return LogReceipt(run=message.run, attempt=message.attempt, first_seq=message.first_seq)
    return None
