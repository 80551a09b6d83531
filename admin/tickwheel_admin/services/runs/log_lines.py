"""Lines of a run's log, and which of them a reader wants to see."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from tickwheel_admin.store.runs.logs import StoredChunk
from tickwheel_shared.protocol import Level, WireLine

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # colours; nobody searches for them


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One line."""

    seq: int  # from 1 within its attempt
    at: int  # by the node's clock
    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesWanted:
    """A choice of lines: those with a text in them, of some levels."""

    text: str = ""  # upper and lower case are the same; "": any
    levels: frozenset[Level] = frozenset()  # none: all

    @property
    def all(self) -> bool:
        """Whether no line is left out."""
        return not self.text and not self.levels

    def may_be_in(self, chunk: str) -> bool:
        """False when no line of a chunk's text is wanted; much quicker than to decode it."""
        if self.levels and not any(f',"{level.value}",' in chunk for level in self.levels):
            return False
        if not self.text or "\\u001b" in chunk:  # a colour may lie within the text
            return True
        escaped = msgspec.json.encode(self.text).decode()[1:-1]
        return escaped.lower() in chunk.lower()

    def has(self, line: WireLine) -> bool:
        """Whether a line is wanted."""
        if self.levels and line.level not in self.levels:
            return False
        return not self.text or self.text.lower() in _ANSI.sub("", line.text).lower()

    def of_chunk(self, chunk: StoredChunk) -> list[LogEntry]:
        """The wanted lines of a chunk, in order."""
        if not self.may_be_in(chunk.text):
            return []
        return [
            LogEntry(seq=seq, at=line.at, level=line.level, text=line.text)
            for seq, line in enumerate(chunk.lines, chunk.first_seq)
            if self.has(line)
        ]


EVERY_LINE = LinesWanted()
