"""Sends log lines from handlers to an admin.

The LogShipper collects the lines of all RunLogs into chunks, sends them, and resends each unchanged
until its receipt: no line is lost or duplicated.

Memory is bounded by back-pressure: above the soft limits a thread waits inside its log call, and an
async handler at its next `await` (AsyncRunner calls `must_wait`). This also bridges short
disconnects. But handlers must not wait for an admin that is down. So after a while without a link,
and for an async handler that never awaits, lines above the hard limits are dropped, and a line in
the log says how many.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass

from tickwheel_executor.link.link import Link
from tickwheel_executor.link.links import AdminLinks
from tickwheel_executor.process import forks
from tickwheel_executor.run.log import RunLog
from tickwheel_shared.protocol import (
    MAX_LINES_PER_CHUNK,
    Level,
    LogChunk,
    LogReceipt,
    WireLine,
)

from .lines import PIECE_CHARS, LogLimit, lines_of, pieces

RUN_SOFT_CHARS = 1024 * 1024  # an attempt with more unconfirmed characters is slowed down
NODE_SOFT_CHARS = 32 * 1024 * 1024  # the same for all attempts together
RUN_HARD_CHARS = 4 * RUN_SOFT_CHARS  # above these, lines are dropped and counted
NODE_HARD_CHARS = 2 * NODE_SOFT_CHARS

_LINE_OVERHEAD_CHARS = 64  # cost of a line besides its text
_MAX_CHUNK_CHARS = 256 * 1024  # as JSON at most 6 times as many bytes: well within a frame
_LINGER_SECONDS = 0.1  # lines written within this time are sent together
PATIENCE_SECONDS = 10.0  # how long writers wait without a link; most disconnects are shorter
_RESEND_SECONDS = 10.0  # a chunk without receipt is resent, perhaps to another admin


@dataclass(slots=True)
class _SentChunk:
    chunk: LogChunk
    log: RunLog
    size: int  # characters it holds in the buffer
    link: Link | None  # that it was sent on; None: not sent
    sent_at: float


class LogShipper:
    """Buffers, sends and resends log lines, and slows writers down; one per node."""

    def __init__(
        self,
        links: AdminLinks,
        clock: Callable[[], int],
        *,
        context: Context,
        max_log_mb: int,
    ) -> None:
        self._links = links
        self._limit = LogLimit(max_log_mb)
        self._clock = clock
        self._context = context  # of the node: nothing here may run in the context of a handler
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._lock = threading.Lock()  # guards the unsent lines and the counts
        self._dirty: dict[RunLog, None] = {}  # logs with unsent lines, oldest first
        self._keeper = 0  # the thread that holds the lock
        self._late: deque[tuple[RunLog, Level, str, int]] = deque()  # written by it meanwhile
        self._armed = False  # sending is scheduled
        self._buffered = 0
        self._unconfirmed: dict[tuple[int, int, int], _SentChunk] = {}
        self._room = threading.Condition()  # threads wait on this
        self._waiters: list[asyncio.Future[None]] = []  # async handlers on these
        self._waiting_threads = 0
        self._patient_until = float("-inf")  # loop time; it counts while there is no link
        self._is_copy = False  # in a forked child
        forks.watch(self)

    def forked(self) -> None:
        """In a child: nothing is sent, and threads that held locks do not exist."""
        self._lock = threading.Lock()
        self._room = threading.Condition()
        self._is_copy = True

    @property
    def idle(self) -> bool:
        """Whether all lines have their receipt."""
        return not self._dirty and not self._unconfirmed

    @property
    def unconfirmed_lines(self) -> int:
        """How many lines no admin has confirmed."""
        return sum(len(log.lines) for log in self._dirty) + sum(
            len(sent.chunk.lines) for sent in self._unconfirmed.values()
        )

    # --- writing ----------------------------------------------------------------------------------

    def add(self, log: RunLog, level: Level, text: str, at: int | None = None) -> None:
        """Take lines from a handler; may block its thread."""
        if self._is_copy:
            return
        if len(text) <= PIECE_CHARS:
            self._add(log, level, text, self._clock() if at is None else at)
            return
        for piece in pieces(text):
            self._add(log, level, piece, self._clock() if at is None else at)

    def _add(self, log: RunLog, level: Level, text: str, at: int) -> None:
        lines = lines_of(text, level, at)
        thread = threading.get_ident()
        if self._keeper == thread:
            # Finalizers may run anywhere, also here, and may log.
            self._late.append((log, level, text, at))
            return
        with self._lock:
            self._keeper = thread
            try:
                kept = self._keep(log, lines, at)
            finally:
                self._keeper = 0
            arm = kept and not self._armed
            self._armed = self._armed or kept
        while self._late:
            with suppress(IndexError):  # another thread took it
                self._add(*self._late.popleft())
        if not kept:
            return
        if thread == self._loop_thread:
            if arm:
                self._arm()
            return
        if arm:
            self._call_on_loop(self._arm)
        if self.must_wait(log):
            self._wait_in_thread(log)

    def _keep(self, log: RunLog, lines: list[WireLine], at: int) -> bool:
        if log.closed:
            return False
        size = _chars(lines)
        if log.buffered + size > RUN_HARD_CHARS or self._buffered + size > NODE_HARD_CHARS:
            log.dropped += len(lines)
            return False
        admitted = self._limit.admit(log, lines, at)
        if not admitted:
            return False
        if log.dropped:
            admitted = [_dropped_line(log, at), *admitted]
        self._put(log, admitted, size if admitted is lines else _chars(admitted))
        return True

    def _put(self, log: RunLog, lines: list[WireLine], size: int) -> None:
        log.lines.extend(lines)
        log.buffered += size
        self._buffered += size
        self._dirty[log] = None

    def close(self, log: RunLog) -> int:
        """The attempt has ended: send the rest; returns how many lines it wrote in total."""
        log.finish_prints()
        with self._lock:
            log.closed = True
            if log.dropped or log.left_out:
                at = self._clock()
                last = [_dropped_line(log, at)] if log.dropped else []
                if (line := self._limit.last_line(log, at)) is not None:
                    last.append(line)
                self._put(log, last, _chars(last))
        if log in self._dirty:
            self._send_lines(log, self._links.pick(log.link))
        return log.next_seq - 1

    # --- sending, on the loop ---------------------------------------------------------------------

    def _arm(self) -> None:
        self._loop.call_later(_LINGER_SECONDS, self._ship, context=self._context)

    def _ship(self) -> None:
        with self._lock:
            self._armed = False
            dirty = list(self._dirty)
        if not self._links.any_open:
            return  # `opened` sends them
        for log in dirty:
            self._send_lines(log, self._links.pick(log.link))

    def _send_lines(self, log: RunLog, link: Link | None) -> None:
        with self._lock:
            lines, log.lines = log.lines, []
            self._dirty.pop(log, None)
        start = 0
        while start < len(lines):
            end, size = start, 0
            while end < len(lines) and end - start < MAX_LINES_PER_CHUNK:
                size += len(lines[end].text) + _LINE_OVERHEAD_CHARS
                end += 1
                if size >= _MAX_CHUNK_CHARS:
                    break
            chunk = LogChunk(
                run=log.run,
                attempt=log.attempt,
                token=log.token,
                first_seq=log.next_seq,
                lines=lines[start:end],
            )
            log.next_seq += end - start
            start = end
            sent = _SentChunk(chunk=chunk, log=log, size=size, link=None, sent_at=0.0)
            self._unconfirmed[log.run, log.attempt, chunk.first_seq] = sent
            if link is not None:
                self._send(sent, link)

    def _send(self, sent: _SentChunk, link: Link) -> None:
        sent.link, sent.sent_at = link, self._loop.time()
        link.send(sent.chunk)

    def receipt(self, message: LogReceipt) -> None:
        """An admin has stored a chunk."""
        sent = self._unconfirmed.pop((message.run, message.attempt, message.first_seq), None)
        if sent is None:
            return
        with self._lock:
            sent.log.buffered -= sent.size
            self._buffered -= sent.size
        self._make_room()

    def opened(self, link: Link) -> None:
        """A link is up: send what is not sent."""
        for sent in self._unconfirmed.values():
            if sent.link is None:
                self._send(sent, link)
        self._ship()

    def closed(self, link: Link) -> None:
        """A link is down: resend its chunks on another, if there is one."""
        other = self._links.pick()
        for sent in self._unconfirmed.values():
            if sent.link is link:
                sent.link = None
                if other is not None:
                    self._send(sent, other)
        if other is None:
            self._patient_until = self._loop.time() + PATIENCE_SECONDS

    def resend_overdue(self, now: float) -> None:
        """Resend chunks without receipt. Called about once a second."""
        for sent in self._unconfirmed.values():
            if sent.link is not None and now - sent.sent_at >= _RESEND_SECONDS:
                link = self._links.pick(avoid=sent.link)
                if link is not None:
                    self._send(sent, link)
        if not self._links.any_open:
            self._make_room()  # the patience of waiting writers may be over

    # --- slowing down -----------------------------------------------------------------------------

    def must_wait(self, log: RunLog) -> bool:
        """Whether the writer of this log has to wait for receipts before it goes on."""
        if log.buffered <= RUN_SOFT_CHARS and (
            self._buffered <= NODE_SOFT_CHARS or log.buffered == 0
        ):
            return False
        if log.hurried or log.closed:
            return False
        return self._links.any_open or self._loop.time() < self._patient_until

    async def wait_for_room(self, log: RunLog) -> None:
        """Wait until the writer of this log may go on."""
        while self.must_wait(log):
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def hurry(self, log: RunLog) -> None:
        """Let the writer of this log continue at once: its attempt has to end."""
        log.hurried = True
        self._make_room()

    def release_all(self) -> None:
        """Let all writers continue: the node is stopping."""
        self._patient_until = float("-inf")
        self._make_room()

    def _wait_in_thread(self, log: RunLog) -> None:
        with self._room:
            self._waiting_threads += 1
            try:
                while self.must_wait(log):
                    # The loop notifies us; the timeout is for a loop that has ended.
                    self._room.wait(1.0)
                    if self._loop.is_closed():
                        return
            finally:
                self._waiting_threads -= 1

    def _make_room(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self._waiting_threads:
            with self._room:
                self._room.notify_all()

    def _call_on_loop(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, context=self._context)


def _chars(lines: list[WireLine]) -> int:
    """Their size in the buffer."""
    return sum([len(line.text) for line in lines]) + _LINE_OVERHEAD_CHARS * len(lines)


def _dropped_line(log: RunLog, at: int) -> WireLine:
    text = f"{log.dropped} lines were dropped here: written faster than an admin could take them"
    log.dropped = 0
    return WireLine(at, Level.WARNING, text)
