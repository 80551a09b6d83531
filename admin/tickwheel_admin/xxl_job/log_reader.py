"""Reads the logs of runs from their executors, in pages of bounded size, into our own."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from tickwheel_admin.domain.xxl_job.bridge import ClientKind, ExpectedLog
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_admin.services.xxl_job.nodes import DEAD_LOG_MS, XxlNodes
from tickwheel_admin.xxl_job.attempts import RemoteAttempt
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NoAnswer, NotSent
from tickwheel_admin.xxl_job.dialects import BadAnswer
from tickwheel_admin.xxl_job.log_keeper import LogKeeper
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_admin.xxl_job.registrar import XxlRegistrar
from tickwheel_shared.protocol import (
    MAX_LINE_CHARS,
    MAX_LINES_PER_CHUNK,
    Level,
    LogChunk,
    WireLine,
)

log = structlog.get_logger(__name__)

PAGE_BYTES = 1024 * 1024  # of one answer; the rest is asked for again
PAGES_AT_ONCE = 4  # of a running attempt, before others have their turn
SHORT_PAGE = 100  # lines; clients that give a part of a log give more than these
MAX_LINES = 200_000  # of one attempt; more stay at the executor
READ_AT_ONCE = 16  # logs of ended runs, over all nodes
READ_OF_NODE = 4  # the same, of one node
READ_OF_BUSY_NODE = 1  # … of one for which runs wait to be started: those come first
MAX_PLACES = 10_000  # logs whose last lines may be on their way to the database
BATCH = 500  # ended runs that are looked up at once
MAX_CHARS = 4_000_000  # of lines that are stored at once, but for the pages under way
REST_SECONDS = 20.0  # of a node that failed: others have their turn
ORPHANS_SECONDS = 60.0  # between two looks for logs whose nodes are gone
GIVE_UP_SECONDS = 60.0  # after which the log of an ended run stays as it is, if the node fails
CUT = "[The rest of this log stays at its executor: it has more than 200,000 lines.]"
CUT_LINE = " [cut]"


class _Log(Protocol):
    """A log of an attempt, and how far it was read."""

    @property
    def run(self) -> int: ...

    @property
    def attempt(self) -> int: ...

    @property
    def token(self) -> str: ...

    @property
    def log_id(self) -> int: ...

    @property
    def time_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """Lines that were read."""

    last: int  # the number of the last line read so far
    chars: int
    chunks: Sequence[LogChunk]
    is_last: bool  # nothing comes behind it, if the attempt has ended


class LogReader:
    """Reads pages. Lines are numbered as there, from 1."""

    def __init__(self, recorder: Recorder, *, wall_clock_ms: WallClock) -> None:
        """Lines are stamped with `wall_clock_ms`: when they were read; they say themselves when
        they were written, in a zone that nobody tells.
        """
        self._recorder = recorder
        self._wall_clock_ms = wall_clock_ms
        # Lines are stored a moment after they were read: who reads on must not begin before them.
        self._places: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._being_read: set[tuple[int, int]] = set()

    async def follow(self, node: XxlNode, attempt: RemoteAttempt) -> None:
        """Hand what a running attempt has logged since to the recorder; raises as
        `NodeCalls.ask`.
        """
        if not self.begin(attempt):
            return
        try:
            for _ in range(PAGES_AT_ONCE):
                attempt.lines = self.place(attempt, attempt.lines)
                page = await self.read_page(node, attempt, attempt.lines)
                if not page.chunks:
                    return
                for chunk in page.chunks:
                    await self._recorder.room(node)
                    self._recorder.receive(node, [chunk])
                    self.handed_over(chunk)
                attempt.lines = page.last
                if attempt.lines >= MAX_LINES:
                    attempt.full = True
                    return
        finally:
            self.end(attempt)

    def begin(self, wanted: _Log) -> bool:
        """Nobody else may read this log until `end`; False: somebody does."""
        key = (wanted.run, wanted.attempt)
        if key in self._being_read:
            return False
        self._being_read.add(key)
        return True

    def end(self, wanted: _Log) -> None:
        """What was read of it is with the recorder, or is read again."""
        self._being_read.discard((wanted.run, wanted.attempt))

    def place(self, wanted: _Log, stored: int) -> int:
        """The last line that is stored, or with the recorder."""
        return max(stored, self._places.get((wanted.run, wanted.attempt), 0))

    def handed_over(self, chunk: LogChunk) -> None:
        """The recorder has these lines."""
        key = (chunk.run, chunk.attempt)
        self._places[key] = chunk.first_seq + len(chunk.lines) - 1
        self._places.move_to_end(key)
        if len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)

    async def read_page(self, node: XxlNode, wanted: _Log, read: int) -> ReadPage:
        """Read lines behind line `read`; raises as `NodeCalls.ask`."""
        page = await node.calls.log_page(
            wanted.log_id, wanted.time_ms, read + 1, max_bytes=PAGE_BYTES
        )
        texts: list[str] = []
        if not page.missing and page.to_line > read:
            texts = page.content.split("\n")[: page.to_line - read]
            texts = texts[: MAX_LINES - read]
        if not texts:
            return ReadPage(last=read, chars=0, chunks=(), is_last=True)
        last = read + len(texts)
        if last >= MAX_LINES:
            texts[-1] = CUT
        at = self._wall_clock_ms()
        lines = [WireLine(at, Level.INFO, _storable(text)) for text in texts]
        # Java says of no page that it is the last.
        tells_end = node.calls.address.client != ClientKind.JAVA
        is_short = not page.truncated and len(texts) < SHORT_PAGE
        return ReadPage(
            last=last,
            chars=len(page.content),
            chunks=[
                LogChunk(
                    run=wanted.run,
                    attempt=wanted.attempt,
                    token=wanted.token,
                    first_seq=read + begin + 1,
                    lines=lines[begin : begin + MAX_LINES_PER_CHUNK],
                )
                for begin in range(0, len(lines), MAX_LINES_PER_CHUNK)
            ],
            is_last=last >= MAX_LINES or (page.is_end if tells_end else is_short),
        )


class WallClock(Protocol):
    """UTC epoch ms."""

    def __call__(self) -> int: ...


@dataclass(slots=True)
class _Pass:
    """What one pass has read so far."""

    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(READ_AT_ONCE))
    chunks: list[tuple[int, LogChunk]] = field(default_factory=list)  # with their executors
    chars: int = 0
    done: list[tuple[int, int, int]] = field(default_factory=list)  # run, attempt, lines
    begun: list[ExpectedLog] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.chars >= MAX_CHARS

    def add(self, executor_id: int, page: ReadPage) -> None:
        self.chunks += ((executor_id, chunk) for chunk in page.chunks)
        self.chars += page.chars


class XxlLogs(Loop):
    """Reads the logs of ended runs; they are noted in the database until they are here.

    What one pass reads is stored together: a transaction for each of many small logs would cost
    more than the runs themselves.
    """

    interval_seconds = 1.0

    def __init__(
        self, nodes: XxlNodes, registrar: XxlRegistrar, reader: LogReader, keeper: LogKeeper
    ) -> None:
        super().__init__()
        self._nodes = nodes
        self._registrar = registrar
        self._reader = reader
        self._keeper = keeper
        self._failed_at: dict[tuple[int, int], float] = {}  # first, by (run, attempt)
        self._rests_until: dict[int, float] = {}  # by node: its last call failed
        self._orphans_at = 0.0  # when they are looked for again

    async def run_once(self) -> bool:
        now = _now()
        self._rests_until = {
            node_id: until for node_id, until in self._rests_until.items() if until > now
        }
        served = {
            node.node_id: node
            for node in self._registrar
            if node.node_id and node.node_id not in self._rests_until
        }
        expected = await self._nodes.expected_logs(served, limit=BATCH)
        if self._registrar.executors and now >= self._orphans_at:
            self._orphans_at = now + ORPHANS_SECONDS
            await self._end_orphans(now)
        if not expected:
            return False
        queues: dict[int, list[ExpectedLog]] = {}
        for each in expected:
            queues.setdefault(each.node_id, []).append(each)
        this = _Pass()
        try:
            await asyncio.gather(
                *(
                    self._read_some(served[node_id], queue, this)
                    for node_id, of_node in queues.items()
                    for queue in _split(of_node, _at_once(served[node_id]))
                )
            )
            # First the lines, then that they are here: an admin that dies in between reads them
            # again.
            if this.chunks:
                await self._keeper.keep(this.chunks, handed_over=self._reader.handed_over)
        finally:
            for each in this.begun:
                self._reader.end(each)
        if this.done:
            await self._nodes.logs_are_read(this.done)
        for run, attempt, _ in this.done:
            self._failed_at.pop((run, attempt), None)
        return this.is_full or (len(expected) == BATCH and bool(this.done))

    async def _end_orphans(self, now: float) -> None:
        orphans = await self._nodes.orphaned_logs(limit=BATCH)
        if orphans:
            await self._nodes.logs_are_read([(e.run, e.attempt, e.lines) for e in orphans])
        old = [key for key, first in self._failed_at.items() if now - first > DEAD_LOG_MS / 1000]
        for key in old:
            del self._failed_at[key]

    async def _read_some(self, node: XxlNode, queue: Sequence[ExpectedLog], this: _Pass) -> None:
        """One after the other; a node that fails is left for a later pass."""
        for expected in queue:
            if this.is_full:
                return
            try:
                async with this.turns:
                    await self._read_rest(node, expected, this)
            except (ConnectionRefused, NotSent, NoAnswer, BadAnswer) as error:
                self._rests_until[node.node_id] = _now() + REST_SECONDS
                if not self._gives_up(expected):
                    return
                log.warning("xxl.log_unread", run_id=expected.run, reason=str(error))
                this.done.append((expected.run, expected.attempt, expected.lines))

    async def _read_rest(self, node: XxlNode, expected: ExpectedLog, this: _Pass) -> None:
        """Read all that is left of a log, or as much as one pass may; the next one goes on."""
        if not self._reader.begin(expected):
            return
        this.begun.append(expected)
        lines = self._reader.place(expected, expected.lines)
        if lines > expected.lines and not self._gives_up(expected):
            return  # the last ones are on their way to the database: a later pass goes on
        while lines < MAX_LINES:
            page = await self._reader.read_page(node, expected, lines)
            this.add(node.executor_id, page)
            lines = page.last
            if page.is_last:
                break
            if this.is_full:
                return
        this.done.append((expected.run, expected.attempt, lines))

    def _gives_up(self, expected: ExpectedLog) -> bool:
        now = _now()
        first = self._failed_at.setdefault((expected.run, expected.attempt), now)
        return now - first >= GIVE_UP_SECONDS


def _at_once(node: XxlNode) -> int:
    return READ_OF_BUSY_NODE if node.runs.is_busy else READ_OF_NODE


def _split(queue: Sequence[ExpectedLog], parts: int) -> list[Sequence[ExpectedLog]]:
    return [queue[start::parts] for start in range(min(parts, len(queue)))]


def _storable(text: str) -> str:
    # Their console shows logs as HTML, so some lines are written for it.
    text = text.rstrip("\r").replace("\0", "�").replace("<br>", " ")
    if len(text) > MAX_LINE_CHARS:
        text = text[: MAX_LINE_CHARS - len(CUT_LINE)] + CUT_LINE
    return text


def _now() -> float:
    return asyncio.get_running_loop().time()
