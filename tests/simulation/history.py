"""What happened, in order: for the eyes of whoever looks into a failing seed, and for its hash."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain


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

    def told(self) -> list[str]:
        """All of it, for people."""
        return [str(event) for event in self._in_order()]

    def told_of_violations(self) -> list[str]:
        """What happened to the runs, triggers and jobs that the violations name."""
        names = set(chain.from_iterable(map(_named, self.violations)))
        runs = {number for kind, number in names if kind == "run"}
        wanted = [re.compile(rf"\b{kind}[ _](?:id=)?{number}\b") for kind, number in sorted(names)]
        wanted += [re.compile(rf"(?<![\d.]){number}/\d") for number in sorted(runs)]
        return [
            str(event)
            for event in self._in_order()
            if event.who == "CHECK"
            or (names and any(each.search(event.what) for each in wanted))
            or (names and event.who == "chaos")
        ]

    def _in_order(self) -> list[Event]:
        return sorted(self.events, key=lambda event: event.seq)

    def digest(self) -> str:
        """Equal for equal histories."""
        whole = hashlib.sha256()
        for event in self._in_order():
            whole.update(f"{event.seq} {event.at!r} {event.who} {event.what}\n".encode())
        return whole.hexdigest()


def _named(violation: str) -> Iterator[tuple[str, int]]:
    """What a violation is about: (kind, id)."""
    for kind, number in re.findall(r"\b(run|trigger|job|fire) (\d+)", violation):
        yield kind, int(number)
    for number in re.findall(r"\b(\d+)/\d+\b|\((\d+), \d+\)", violation):
        yield "run", int("".join(number))
