"""Splits text into lines of a run's log, and limits the size of the log."""

from __future__ import annotations

from collections.abc import Iterator

from tickwheel_executor.run.log import RunLog
from tickwheel_executor.text import clean, cut
from tickwheel_shared.protocol import MAX_LINE_CHARS, Level, WireLine

PIECE_CHARS = 64 * 1024
_MIN_LINE_BYTES = 20  # minimum size of a line: storing it costs more than its text
_ERROR_RESERVE_BYTES = 256 * 1024  # for errors in a full log: why did the run fail?


def pieces(text: str) -> Iterator[str]:
    """Split a long text between lines, so that one piece at a time is made into lines."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        end = text.find("\n", start + PIECE_CHARS) + 1
        if not end:
            break
        yield text[start:end]
        start = end
    if start < len(text) or not text:
        yield text[start:] if start else text


def lines_of(text: str, level: Level, at: int) -> list[WireLine]:
    """The lines of a text, clean; long ones are cut."""
    text = clean(text)
    if "\n" not in text:  # nearly always
        return [WireLine(at, level, cut(text, MAX_LINE_CHARS))]
    parts = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    return [WireLine(at, level, cut(part, MAX_LINE_CHARS)) for part in parts]


class LogLimit:
    """Limits what one attempt may write to its log, in MiB of UTF-8 text."""

    def __init__(self, max_log_mb: int) -> None:
        self._max_log_mb = max_log_mb
        self._max_bytes = max_log_mb * 1024 * 1024

    def admit(self, log: RunLog, lines: list[WireLine], at: int) -> list[WireLine]:
        """The lines that fit; the first that does not is replaced by a line that says so."""
        sizes = [max(_MIN_LINE_BYTES, _bytes_of(line.text) + 1) for line in lines]
        if log.size + sum(sizes) <= self._max_bytes:  # nearly always
            log.size += sum(sizes)
            return lines
        kept: list[WireLine] = []
        for line, size in zip(lines, sizes, strict=True):
            reserve = _ERROR_RESERVE_BYTES if line.level is Level.ERROR else 0
            if log.size + size <= self._max_bytes + reserve:
                log.size += size
                kept.append(line)
                continue
            if not log.left_out:
                kept.append(WireLine(at, Level.WARNING, self._full()))
            log.left_out += 1
        return kept

    def last_line(self, log: RunLog, at: int) -> WireLine | None:
        """The last line of a log that became full."""
        if not log.left_out:
            return None
        text = f"{log.left_out:,} lines were left out: {self._rule()}"
        return WireLine(at, Level.WARNING, text)

    def _full(self) -> str:
        return f"the log is full, further lines are left out: {self._rule()}"

    def _rule(self) -> str:
        return f"one attempt may write {self._max_log_mb:,} MiB (`max_log_mb` of the Executor)"


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
