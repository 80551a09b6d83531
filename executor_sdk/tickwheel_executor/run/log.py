"""The log of one attempt: `run.log`."""

from __future__ import annotations

import threading
import traceback
from typing import Protocol

from tickwheel_executor.link.link import Link
from tickwheel_shared.protocol import MAX_LINE_CHARS, Level, WireLine
from tickwheel_shared.secret_mask import SecretMask, hidden


class LogSink(Protocol):
    """Receives lines; LogShipper is one."""

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
        "mask",
        "next_seq",
        "run",
        "size",
        "token",
    )

    def __init__(
        self,
        sink: LogSink,
        link: Link | None,
        *,
        run: int,
        attempt: int,
        token: str,
        mask: SecretMask | None = None,
    ) -> None:
        self._sink = sink
        self.mask = mask  # hides the run's secrets; None: it has none
        self.link = link  # that the run came from; its lines go there if it is open
        self.run, self.attempt, self.token = run, attempt, token
        self.lines: list[WireLine] = []  # not yet in a chunk
        self.next_seq = 1  # number of the first line in `lines`
        self.buffered = 0  # characters in `lines` and in chunks without receipt
        self.dropped = 0  # lines dropped since the last one that was accepted
        self.size = 0  # bytes of all accepted lines
        self.left_out = 0  # lines left out because the log is full
        # Incomplete prints by level and thread; "": the start of a long line has been written.
        self._unfinished: dict[tuple[Level, int], str] = {}
        self.hurried = False  # the attempt has to end: do not make it wait
        self.closed = False  # the attempt has ended: later lines are ignored

    def debug(self, message: str, *args: object) -> None:
        """Write a line; `args` are %-formatted as in `logging`."""
        self.write(Level.DEBUG, message % args if args else message)

    def info(self, message: str, *args: object) -> None:
        """Write a line; `args` are %-formatted as in `logging`."""
        self.write(Level.INFO, message % args if args else message)

    def warning(self, message: str, *args: object) -> None:
        """Write a line; `args` are %-formatted as in `logging`."""
        self.write(Level.WARNING, message % args if args else message)

    def error(self, message: str, *args: object) -> None:
        """Write a line; `args` are %-formatted as in `logging`."""
        self.write(Level.ERROR, message % args if args else message)

    def exception(self, message: str, *args: object) -> None:
        """Write an error line, and the traceback of the exception being handled."""
        text = message % args if args else message
        self.write(Level.ERROR, f"{text}\n{traceback.format_exc().rstrip()}")

    def write(self, level: Level, text: str, *, at: int | None = None) -> None:
        """Write text, one line of the log for each of its lines; `at` as of `LogSink.add`."""
        self._sink.add(self, level, hidden(self.mask, str(text)), at)

    def printed(self, level: Level, text: str) -> None:
        """Take printed text; a line is written when it is complete.

        If a line is overwritten with carriage returns, as by progress bars, the last state counts.
        """
        key = (level, threading.get_ident())  # so that threads do not mix their lines
        before = self._unfinished.pop(key, None)
        if before == "":
            text = text.removeprefix("\n")  # the end of a long line that was written before
        text = (before or "") + text
        lines, newline, rest = text.rpartition("\n")
        if len(rest) > MAX_LINE_CHARS:
            end = len(text) if self.mask is None else self.mask.begun_at(text)
            # What may be the beginning of a secret is kept until the rest of it comes.
            lines, newline, self._unfinished[key] = text[:end], "\n", text[end:]
        elif rest:
            self._unfinished[key] = rest[rest.rstrip("\r").rfind("\r") + 1 :]
        if newline:
            self.write(level, "\n".join(_last_state(line) for line in lines.split("\n")))

    @property
    def is_full(self) -> bool:
        """Whether the limit of its size was reached; further lines are only counted."""
        return self.left_out > 0

    def leave_out(self, lines: int) -> None:
        """Count lines that are not even written, because it is full."""
        self.left_out += lines

    def finish_prints(self) -> None:
        """Write what is left without a newline."""
        while self._unfinished:
            (level, _), rest = self._unfinished.popitem()
            if rest:
                self.write(level, _last_state(rest))


def _last_state(line: str) -> str:
    line = line.rstrip("\r")
    return line[line.rfind("\r") + 1 :]
