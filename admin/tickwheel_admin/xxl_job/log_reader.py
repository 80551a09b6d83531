"""Reads the logs of runs from their executors, in pages of bounded size, into our own."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import structlog

from tickwheel_admin.domain.xxl_job.bridge import ExpectedLog
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_admin.services.xxl_job.nodes import XxlNodes
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.attempts import RemoteAttempt
from tickwheel_admin.xxl_job.caller import ConnectionRefused, NoAnswer, NotSent
from tickwheel_admin.xxl_job.dialects import BadAnswer
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
MAX_LINES = 200_000  # of one attempt; more stay at the executor
READ_AT_ONCE = 16  # logs of ended runs, over all nodes
READ_OF_NODE = 4  # the same, of one node
MAX_PLACES = 10_000  # logs whose last lines may be on their way to the database
BATCH = 500  # ended runs that are looked up at once
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


class LogReader:
    """Reads pages and hands their lines to the recorder. Lines are numbered as there, from 1."""

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
        """Read what a running attempt has logged since; raises as `NodeCalls.ask`."""
        with self._alone(attempt) as is_alone:
            for _ in range(PAGES_AT_ONCE if is_alone else 0):
                before = attempt.lines = self._place(attempt, attempt.lines)
                attempt.lines = await self._read_page(node, attempt, before)
                if attempt.lines >= MAX_LINES:
                    attempt.full = True
                if attempt.lines == before or attempt.full:
                    return

    async def read_rest(self, node: XxlNode, expected: ExpectedLog) -> int | None:
        """Read all that is left of an ended attempt's log; how many lines it has.

        None: somebody else reads it at the moment.
        """
        with self._alone(expected) as is_alone:
            if not is_alone:
                return None
            lines = self._place(expected, expected.lines)
            while lines < MAX_LINES:
                before = lines
                lines = await self._read_page(node, expected, before)
                if lines == before:
                    break
            return lines

    @contextmanager
    def _alone(self, wanted: _Log) -> Iterator[bool]:
        """Whether nobody else reads this log meanwhile."""
        key = (wanted.run, wanted.attempt)
        if key in self._being_read:
            yield False
            return
        self._being_read.add(key)
        try:
            yield True
        finally:
            self._being_read.discard(key)

    def _place(self, wanted: _Log, stored: int) -> int:
        return max(stored, self._places.get((wanted.run, wanted.attempt), 0))

    async def _read_page(self, node: XxlNode, wanted: _Log, read: int) -> int:
        """Read lines behind line `read`; returns the number of the last line read."""
        call = dialects.log(node.calls.dialect, wanted.log_id, wanted.time_ms, read + 1)
        reply = await node.calls.read(call, max_bytes=PAGE_BYTES)
        page = dialects.read_log(
            reply.status, reply.body, from_line=read + 1, truncated=reply.truncated
        )
        if page.missing or page.to_line <= read:
            return read
        texts = page.content.split("\n")[: page.to_line - read]
        texts = texts[: MAX_LINES - read]
        if not texts:
            return read
        last = read + len(texts)
        if last >= MAX_LINES:
            texts[-1] = CUT
        at = self._wall_clock_ms()
        lines = [WireLine(at, Level.INFO, _storable(text)) for text in texts]
        for begin in range(0, len(lines), MAX_LINES_PER_CHUNK):
            await self._recorder.room(node)
            chunk = LogChunk(
                run=wanted.run,
                attempt=wanted.attempt,
                token=wanted.token,
                first_seq=read + begin + 1,
                lines=lines[begin : begin + MAX_LINES_PER_CHUNK],
            )
            self._recorder.receive(node, [chunk])
        self._places[wanted.run, wanted.attempt] = last
        self._places.move_to_end((wanted.run, wanted.attempt))
        if len(self._places) > MAX_PLACES:
            self._places.popitem(last=False)
        return last


class WallClock(Protocol):
    """UTC epoch ms."""

    def __call__(self) -> int: ...


class XxlLogs(Loop):
    """Reads the logs of ended runs; they are noted in the database until they are here."""

    interval_seconds = 1.0

    def __init__(self, nodes: XxlNodes, registrar: XxlRegistrar, reader: LogReader) -> None:
        super().__init__()
        self._nodes = nodes
        self._registrar = registrar
        self._reader = reader
        self._orphans_at = 0.0
        self._failed_at: dict[tuple[int, int], float] = {}  # first, by (run, attempt)

    async def run_once(self) -> bool:
        served = {node.node_id: node for node in self._registrar if node.node_id}
        expected = await self._nodes.expected_logs(served, limit=BATCH)
        queues: dict[int, list[ExpectedLog]] = {}
        for each in expected:
            queues.setdefault(each.node_id, []).append(each)
        turns = asyncio.Semaphore(READ_AT_ONCE)
        done: list[tuple[int, int, int]] = []
        await asyncio.gather(
            *(
                self._read_some(served[node_id], queue, turns, done)
                for node_id, of_node in queues.items()
                for queue in _split(of_node, READ_OF_NODE)
            )
        )
        if not expected:
            self._failed_at.clear()
        now = asyncio.get_running_loop().time()
        if self._registrar.executors and now - self._orphans_at >= ORPHANS_SECONDS:
            self._orphans_at = now
            orphans = await self._nodes.orphaned_logs(limit=BATCH)
            done += [(each.run, each.attempt, each.lines) for each in orphans]
        if done:
            await self._nodes.logs_are_read(done)
        return len(expected) == BATCH and len(done) == BATCH

    async def _read_some(
        self,
        node: XxlNode,
        queue: Sequence[ExpectedLog],
        turns: asyncio.Semaphore,
        done: list[tuple[int, int, int]],
    ) -> None:
        """One after the other; a node that fails is left for the next pass."""
        for expected in queue:
            try:
                async with turns:
                    lines = await self._reader.read_rest(node, expected)
            except (ConnectionRefused, NotSent, NoAnswer, BadAnswer) as error:
                if not self._gives_up(expected):
                    return
                log.warning("xxl.log_unread", run_id=expected.run, reason=str(error))
                lines = expected.lines
            if lines is not None:
                done.append((expected.run, expected.attempt, lines))

    def _gives_up(self, expected: ExpectedLog) -> bool:
        now = asyncio.get_running_loop().time()
        first = self._failed_at.setdefault((expected.run, expected.attempt), now)
        if now - first < GIVE_UP_SECONDS:
            return False
        del self._failed_at[expected.run, expected.attempt]
        return True


def _split(queue: Sequence[ExpectedLog], parts: int) -> list[Sequence[ExpectedLog]]:
    return [queue[start::parts] for start in range(min(parts, len(queue)))]


def _storable(text: str) -> str:
    # Their console shows logs as HTML, so some lines are written for it.
    text = text.rstrip("\r").replace("\0", "�").replace("<br>", " ")
    if len(text) > MAX_LINE_CHARS:
        text = text[: MAX_LINE_CHARS - len(CUT_LINE)] + CUT_LINE
    return text
