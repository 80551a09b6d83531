"""What a child writes, as lines of its run's log."""

from __future__ import annotations

import re
from contextlib import suppress

from tickwheel_executor.run.context import Run
from tickwheel_shared.protocol import MAX_LINE_CHARS, Level

# "::progress 0.4 halfway::" and "::retry-after 30::", alone on their line
_TOLD = re.compile(
    rb"^::(progress|retry-after) ([0-9.]{1,20})(?: ([^\n]{0,4000}?))?::\r?\n", re.MULTILINE
)
_MARKS = (b"::progress ", b"::retry-after ")
_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_MAX_REST_BYTES = 4 * MAX_LINE_CHARS
_TAIL_BYTES = 4_096
_OF_ONE_ERROR = 60  # so many lines, at most, belong to what was told last
# Marks below a line of source, and what Node says about itself after an error.
_RAISED = re.compile(r"(?:Uncaught )?[A-Z]\w*(?:Error|Exception)\b")
_TELLS_NOTHING = re.compile(r"[~^\s]+|at .*\bnode:internal/\S+|Node\.js v[0-9.]+")


class OutputLines:
    """Makes lines of the bytes of one stream. Bytes that are not UTF-8 become U+FFFD."""

    def __init__(self, run: Run, level: Level) -> None:
        self._run = run
        self._level = level
        self._rest = b""  # the line that is not complete
        self._is_cut = False  # the rest of a line that is too long is left out
        self._tail = b""
        self.retry_after: float | None = None  # seconds that it asked for

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if self._is_cut:
            _, newline, data = data.partition(b"\n")
            if not newline:
                return
            self._is_cut = False
        head, newline, rest = data.rpartition(b"\n")
        if newline:
            self._write(self._rest + head + newline)
            self._rest = rest
        else:
            self._rest += data
        if len(self._rest) > _MAX_REST_BYTES:
            self._write(self._rest + b"\n")
            self._rest, self._is_cut = b"", True

    def finish(self) -> None:
        """Take what is left without a newline."""
        if self._rest:
            self._write(self._rest + b"\n")
            self._rest = b""

    def last_lines(self, count: int, *, traced: str = "") -> str:
        """The last lines that tell something, without colours.

        Args:
            traced: a file whose language writes a traceback: what was raised is put in front, and
                the line that tells the place in this file, if the traceback is longer.
        """
        tail = self._tail
        if len(tail) == _TAIL_BYTES:  # its first line may begin in the middle, also of a secret
            tail = tail.partition(b"\n")[2]
        text = _COLOURS.sub("", tail.decode("utf-8", "replace"))
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line and not _TELLS_NOTHING.fullmatch(line)]
        before, last = lines[-_OF_ONE_ERROR:-count], lines[-count:]
        if not (traced and last):
            return "\n".join(last)
        place = _place_of(traced, before, last)
        told = last if place is None else [place, "…", *last]
        error = _error_of(lines[-_OF_ONE_ERROR:])
        # In lists of runs the first line is all that one sees.
        return "\n".join(told if error is None else [error, *(x for x in told if x != error)])

    def _write(self, lines: bytes) -> None:
        if any(mark in lines for mark in _MARKS):
            lines = _TOLD.sub(self._told, lines)
            if not lines:
                return
        self._tail = (self._tail + lines[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        log = self._run.log
        if log.is_full:  # a gigabyte is counted, not looked at
            log.leave_out(lines.count(b"\n"))
            return
        text = lines.decode("utf-8", "replace")
        if "\r" in text:
            log.printed(self._level, text)
        else:
            log.write(self._level, text[:-1])

    def _told(self, found: re.Match[bytes]) -> bytes:
        what, number, text = found.groups()
        with suppress(ValueError):  # "1.2.3": an ordinary line
            if what == b"progress":
                self._run.progress(float(number), (text or b"").decode("utf-8", "replace"))
            else:
                self.retry_after = float(number)
            return b""
        return found[0]


def _place_of(file: str, before: list[str], last: list[str]) -> str | None:
    """The line that tells where in a file it failed; None: `last` tells it, or nothing does.

    Node and Ruby begin with it (script.js:3), Python names callers before what they call.
    """
    begins = re.compile(rf"\S*\b{re.escape(file)}:[0-9]+(:in .*)?")
    if any(begins.fullmatch(line) for line in last):
        return None
    if heads := [line for line in before if begins.fullmatch(line)]:
        return heads[-1]
    if any(file in line for line in last):
        return None
    return next((line for line in reversed(before) if file in line), None)


def _error_of(lines: list[str]) -> str | None:
    """The line that says what was raised: the last one in Python, one before the calls in Node."""
    if any(line.startswith('File "') for line in lines):
        return lines[-1]
    return next((line for line in reversed(lines) if _RAISED.match(line)), None)
