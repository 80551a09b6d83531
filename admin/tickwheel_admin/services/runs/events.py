"""The stream of events of runs: one reader of this admin feeds all who listen to it.

The reader numbers what has committed and keeps the newest events in memory. Whoever listens has a
number only, and reads what comes after it: from memory, or from the database when they are behind.
So a slow listener costs no memory, and one that comes back after an hour is nothing special.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.errors import Gone, NotFound
from tickwheel_admin.domain.runs.events import READY_MS, RunEvent
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.events.events import QUEUED, RUNS, Events
from tickwheel_admin.store.database.database import DatabaseUnavailable, Store
from tickwheel_admin.store.database.tables import job
from tickwheel_admin.store.runs.events.feed import (
    EventBatch,
    FeedState,
    has_unnumbered,
    number_events,
    read_events,
    read_state,
    want_events,
)

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5  # between two looks; what this admin did itself is looked at sooner
GATHER_SECONDS = 0.05  # between two looks in any case
WANT_SECONDS = 60.0  # between two signs of life in the database
ROWS_NUMBERED = 1_000  # in one transaction
ROWS_READ = 50  # of up to a thousand events each
KEPT_IN_MEMORY = 20_000  # events


@dataclass(frozen=True, slots=True)
class NumberedEvent:
    """An event, with its place in the feed."""

    seq: int
    at: int
    event: RunEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events somebody wants; None: all of those that they may see."""

    executor_id: int | None = None
    job_id: int | None = None
    states: frozenset[str] | None = None

    def takes(self, event: RunEvent, scope: frozenset[int] | None) -> bool:
        """Whether it is one of them, for somebody who may see these executors."""
        return (
            (scope is None or event.executor_id in scope)
            and self.executor_id in (None, event.executor_id)
            and self.job_id in (None, event.job_id)
            and (self.states is None or event.state in self.states)
        )


class RunEventFeed:
    """Used from the event loop's thread only."""

    def __init__(self, store: Store, events: Events, *, ready_ms: int = READY_MS) -> None:
        """`ready_ms`: as of `want_events`."""
        self._store = store
        self._events = events
        self.ready_ms = ready_ms
        self._listeners = 0
        self._task: asyncio.Task[None] | None = None
        self._state: FeedState | None = None  # as the reader saw it last
        self._tail: deque[EventBatch] = deque()  # without gaps up to `_state.last_seq`
        self._in_tail = 0
        self._changed = asyncio.Event()  # replaced at each change

    # --- for those who listen ----------------------------------------------------------------

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Keep the reader at work for as long as this is open."""
        self._listeners += 1
        if self._task is None or self._task.done():
            self._state = None
            self._task = asyncio.create_task(self._read_on(), name="run events")
        try:
            yield
        finally:
            self._listeners -= 1
            if not self._listeners and self._task is not None:
                self._task.cancel()
                self._task = None

    async def check(self, actor: Actor, wanted: EventFilter, after: int | None) -> None:
        """Whether this can be streamed.

        Raises:
            NotFound: the executor or the job is not there, or the actor may not see it.
            Gone: events after `after` are missing.
        """
        if wanted.executor_id is not None:
            actor.require(Permission.VIEW, wanted.executor_id)
        if wanted.job_id is not None:
            executor_id = await self._store.read(_executor_of, wanted.job_id)
            if executor_id is None:
                raise NotFound("not_found", "There is nothing here, or you may not see it.")
            actor.require(Permission.VIEW, executor_id)
        if after is not None:
            state = await self._store.read(read_state)
            if state is None or not state.has_all_after(after):
                raise gone()

    def place(self) -> int | None:
        """The number of the newest event, to go on from; None: not every admin writes them yet."""
        state = self._state
        return None if state is None or state.complete_after is None else state.last_seq

    async def after(self, seq: int) -> tuple[Sequence[NumberedEvent], int]:
        """Some events after this number, in order, and the number to go on from.

        Raises:
            Gone: some of them are not kept any more.
            DatabaseUnavailable: they would have to be read, and the database is away.
        """
        state = self._state
        if state is None or seq >= state.last_seq:
            return (), seq
        if self._tail and self._tail[0].first_seq <= seq + 1:
            found = [each for each in self._tail if each.last_seq > seq][:ROWS_READ]
        else:
            found, kept = await self._store.read(_read_after, seq)
            if kept is None or not kept.has_all_after(seq):
                raise gone()
        if not found:
            return (), seq
        numbered = [
            NumberedEvent(number, each.at, event)
            for each in found
            for number, event in enumerate(each.events, each.first_seq)
            if number > seq
        ]
        return numbered, found[-1].last_seq

    @property
    def changed(self) -> asyncio.Event:
        """Set at the next change; to be taken before one looks."""
        return self._changed

    async def close(self) -> None:
        """Stop reading."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    # --- the reader ---------------------------------------------------------------------------

    async def _read_on(self) -> None:
        moved = asyncio.Event()
        stops = [self._events.listen(topic, moved.set) for topic in (RUNS, QUEUED)]
        try:
            await self._look_again_and_again(moved)
        finally:
            for stop in stops:
                stop()

    async def _look_again_and_again(self, moved: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        want_at = loop.time()
        while True:
            moved.clear()
            try:
                if loop.time() >= want_at:
                    await self._store.run(want_events, ready_ms=self.ready_ms)
                    want_at = loop.time() + WANT_SECONDS
                await self._look()
            except DatabaseUnavailable:
                pass  # in the log already; nothing is lost by it
            except Exception:
                # Whatever one look met: streams stay open for days, and must not go silent by it.
                log.exception("run_events.look_failed")
            await asyncio.sleep(GATHER_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS - GATHER_SECONDS):
                    await moved.wait()

    async def _look(self) -> None:
        if self._state is None or self.place() is None or await self._store.read(has_unnumbered):
            while await self._store.run(number_events, limit=ROWS_NUMBERED):
                pass
        state = await self._store.read(read_state)
        if state is None:
            return
        before, seq = self._state, self._state.last_seq if self._state else state.last_seq
        if before is not None and state.complete_after is not None and seq < state.complete_after:
            # What was written before is not complete, or not kept: nobody may take it for all.
            self._forget()
            seq = state.last_seq
        while seq < state.last_seq:
            found = await self._store.read(read_events, after=seq, limit=ROWS_READ)
            found = [each for each in found if each.last_seq <= state.last_seq]
            if not found:
                break
            self._keep(found)
            seq = found[-1].last_seq
        if state != before:
            self._state = state
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _keep(self, batches: Sequence[EventBatch]) -> None:
        self._tail.extend(batches)
        self._in_tail += sum(len(each.events) for each in batches)
        while self._in_tail > KEPT_IN_MEMORY and len(self._tail) > 1:
            self._in_tail -= len(self._tail.popleft().events)

    def _forget(self) -> None:
        self._tail.clear()
        self._in_tail = 0


def gone() -> Gone:
    """Whoever reads is behind what is kept."""
    return Gone(
        "events.gone",
        "Events after this number are not all kept any more. Read the runs that you need from their"
        " list, and begin a new stream without a number.",
    )


def _read_after(conn: sa.Connection, seq: int) -> tuple[list[EventBatch], FeedState | None]:
    # In this order: what is deleted between the two is missed, and then the state says so.
    found = read_events(conn, after=seq, limit=ROWS_READ)
    return found, read_state(conn)


def _executor_of(conn: sa.Connection, job_id: int) -> int | None:
    return conn.execute(sa.select(job.c.executor_id).where(job.c.id == job_id)).scalar_one_or_none()
