"""What happened, in order: for the eyes of whoever looks into a failing seed, and for its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    seq: int  # order; shared with the ledger's own history in the database
    at: float  # virtual seconds
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:9.3f}  {self.who:<10} {self.what}"


class History:
    """Events of one simulation. `time` tells virtual seconds."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._seq = 0
        self.events: list[Event] = []
        self.violations: list[str] = []
        self.closed = False  # the world is being dismantled: nothing counts any more

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._time()

    def next_seq(self) -> int:
        """A number greater than all before it."""
        self._seq += 1
        return self._seq

    def note(self, who: str, what: str) -> None:
        if not self.closed:
            self.events.append(Event(self.next_seq(), self._time(), who, what))

    def violation(self, what: str) -> None:
        """A promise was broken."""
        if not self.closed and what not in self.violations:
            self.violations.append(what)
            self.note("CHECK", f"VIOLATION {what}")

    def digest(self) -> str:
        """Equal for equal histories."""
        whole = hashlib.sha256()
        for event in sorted(self.events, key=lambda event: event.seq):
            whole.update(f"{event.seq} {event.at!r} {event.who} {event.what}\n".encode())
        return whole.hexdigest()
