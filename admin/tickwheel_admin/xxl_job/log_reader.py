"""Reads the logs of runs from their executors, in pages of bounded size."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tickwheel_admin.domain.xxl_job.bridge import ClientKind
from tickwheel_admin.domain.xxl_job.hidden_text import UnknownSecrets
from tickwheel_admin.engine.ports import FetchedChunk
from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_admin.xxl_job.attempts import RemoteAttempt
from tickwheel_admin.xxl_job.node import XxlNode
from tickwheel_shared.protocol import (
    MAX_LINE_CHARS,
    MAX_LINES_PER_CHUNK,
    Level,
    LogChunk,
    WireLine,
)
from tickwheel_shared.secret_mask import HIDDEN, SecretMask, hidden

PAGE_BYTES = 1024 * 1024  # of one answer; the rest is asked for again
PAGES_AT_ONCE = 4  # of a running attempt, before others have their turn
SHORT_PAGE = 100  # lines; clients that give a part of a log give more than these
MAX_LINES = 200_000  # of one attempt; more stay at the executor
MAX_PLACES = 10_000  # logs whose last lines may be on their way to the database
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

    @property
    def mask(self) -> SecretMask | None: ...


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
            texts = _as_counted(page.content, page.to_line - read)
            texts = texts[: MAX_LINES - read]
        if not texts:
            return ReadPage(last=read, chars=0, chunks=(), is_last=True)
        last = read + len(texts)
        texts = _hidden(wanted.mask, texts)
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
                FetchedChunk(
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


def _as_counted(content: str, count: int) -> list[str]:
    """The lines of a page, as many as its executor counts.

    One that counts entries may have more line ends than that: the next page begins behind the last
    entry, so that nothing of these may be left out, and nobody knows which lines are one entry.
    """
    texts = content.removesuffix("\n").split("\n")
    if len(texts) == count + 1 and not texts[0]:
        del texts[0]  # Node begins pages with a line feed
    if len(texts) <= count:
        return texts
    each, more = divmod(len(texts), count)
    parts: list[str] = []
    for number in range(count):
        size = each + (number < more)
        begin = number * each + min(number, more)
        parts.append("\n".join(texts[begin : begin + size]))
    return parts


def _hidden(mask: SecretMask | None, texts: list[str]) -> list[str]:
    """The lines of a page without the values of secrets."""
    if isinstance(mask, UnknownSecrets):  # all is hidden, which is said once
        return [mask.hide("all"), *(HIDDEN for _ in texts[1:])]
    return [hidden(mask, text) for text in texts]


def _storable(text: str) -> str:
    # Their console shows logs as HTML, so some lines are written for it.
    text = text.rstrip("\r").replace("\0", "�").replace("<br>", " ")
    if len(text) > MAX_LINE_CHARS:
        text = text[: MAX_LINE_CHARS - len(CUT_LINE)] + CUT_LINE
    return text


def _now() -> float:
    return asyncio.get_running_loop().time()
