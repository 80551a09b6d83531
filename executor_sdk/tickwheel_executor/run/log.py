"""The writing end of one attempt's log: what a handler knows as `run.log`."""

from __future__ import annotations

import threading
import traceback
from typing import Protocol

from tickwheel_executor.link.link import Link
from tickwheel_shared.protocol import MAX_LINE_CHARS, Level, WireLine


class LogSink(Protocol):
    """Where lines go; `log_shipper.LogShipper` is one."""

    def add(self, log: RunLog, level: Level, text: str, at: int | None = None) -> None:
        """Take text of any length, from any thread; may make the caller wait for room.

        Args:
            at: when it was written, UTC epoch ms; None: now.
        """


class RunLog:
    """The log of one attempt: `run.log`. Safe to use from any thread."""

    __slots__ = (
        "_sink",
        "_unfinished",
        "attempt",
        "buffered",
        "closed",
        "dropped",
        "hurried",
        "left_out",
        "lines",
        "link",
        "next_seq",
        "run",
        "size",
        "token",
    )

    def __init__(
        self, sink: LogSink, link: Link | None, *, run: int, attempt: int, token: str
    ) -> None:
        self._sink = sink
        self.link = link  # where the run came from, and its lines go if it is still open
        self.run, self.attempt, self.token = run, attempt, token
        self.lines: list[WireLine] = []  # not yet in a chunk
        self.next_seq = 1  # number of the first line in `lines`
        self.buffered = 0  # characters in `lines` and in chunks without receipt
        self.dropped = 0  # lines dropped since the last one that was kept
        self.size = 0  # bytes of all lines that were kept
        self.left_out = 0  # lines that were not, because the log is full
        # Printed, by level and thread; "": a part of a line that was long has been written.
        self._unfinished: dict[tuple[Level, int], str] = {}
        self.hurried = False  # the attempt is to end: do not make it wait any more
        self.closed = False  # the attempt has ended: later lines come too late

    def debug(self, message: str, *args: object) -> None:
        """Write a line; `args` are put in with % as in `logging`."""
        self.write(Level.DEBUG, message % args if args else message)

    def info(self, message: str, *args: object) -> None:
        """Write a line; `args` are put in with % as in `logging`."""
        self.write(Level.INFO, message % args if args else message)

    def warning(self, message: str, *args: object) -> None:
        """Write a line; `args` are put in with % as in `logging`."""
        self.write(Level.WARNING, message % args if args else message)

    def error(self, message: str, *args: object) -> None:
        """Write a line; `args` are put in with % as in `logging`."""
        self.write(Level.ERROR, message % args if args else message)

    def exception(self, message: str, *args: object) -> None:
        """Write an error line, and the traceback of the exception being handled."""
        text = message % args if args else message
        self.write(Level.ERROR, f"{text}\n{traceback.format_exc().rstrip()}")

    def write(self, level: Level, text: str, *, at: int | None = None) -> None:
        """Write text, one line of the log for each of its lines; `at` as of `LogSink.add`."""
        self._sink.add(self, level, str(text), at)

    def printed(self, level: Level, text: str) -> None:
        """Take what was printed: it is written when its line is complete.

        Of a line that goes back to its beginning, as progress bars do, the last state counts.
        """
        key = (level, threading.get_ident())  # so that threads do not cut up each other's lines
        before = self._unfinished.pop(key, None)
        if before == "":
            text = text.removeprefix("\n")  # the end of a line that was written when it was long
        text = (before or "") + text
        lines, newline, rest = text.rpartition("\n")
        if len(rest) > MAX_LINE_CHARS:
            lines, newline, rest = text, "\n", ""
            self._unfinished[key] = ""
        elif rest:
            self._unfinished[key] = rest[rest.rstrip("\r").rfind("\r") + 1 :]
        if newline:
            self.write(level, "\n".join(_last_state(line) for line in lines.split("\n")))

    def finish_prints(self) -> None:
        """Nothing more is printed: write what has no newline."""
        while self._unfinished:
            (level, _), rest = self._unfinished.popitem()
            if rest:
                self.write(level, _last_state(rest))


def _last_state(line: str) -> str:
    line = line.rstrip("\r")
    return line[line.rfind("\r") + 1 :]
