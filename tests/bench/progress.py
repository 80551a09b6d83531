"""How far the bench is, on a terminal: one line that the next output takes away."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TextIO


class Progress:
    """Counts steps of which it is roughly known how long they take.

    What they took so far corrects what the others are thought to take: machines differ.
    """

    def __init__(self, seconds: Sequence[float], stream: TextIO = sys.stderr) -> None:
        """`seconds` of each step, in their order."""
        self._seconds = list(seconds)
        self._stream = stream
        self._is_shown = stream.isatty()
        self._done = 0
        self._began_at = time.monotonic()

    def step(self, name: str) -> None:
        """The next step begins."""
        if self._is_shown:
            left = time_left(self._seconds, self._done, time.monotonic() - self._began_at)
            text = f"[{self._done + 1}/{len(self._seconds)}] {name}, {in_words(left)} left"
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()

    def done(self) -> None:
        """It has ended."""
        self._done += 1
        self.clear()

    def clear(self) -> None:
        """Take the line away, for other output."""
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def time_left(seconds: Sequence[float], done: int, passed: float) -> float:
    """Seconds for the steps after the first `done`, which took `passed` in all."""
    thought = sum(seconds[:done])
    pace = passed / thought if done and thought else 1.0
    return sum(seconds[done:]) * pace


def in_words(seconds: float) -> str:
    """A length of time for somebody who waits."""
    minutes = round(seconds / 60)
    if minutes >= 90:
        return f"about {minutes / 60:.1f} hours"
    return f"about {minutes} min" if minutes else "less than a minute"
