"""What is to be asked about runs, and when: nobody looks at those that are not due."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Generic, TypeVar

A = TypeVar("A")  # an attempt


class Agenda(Generic[A]):
    """Attempts of one node by the instant when one kind of question is due, each at most once."""

    def __init__(self) -> None:
        self._due: dict[A, float] = {}
        self._heap: list[tuple[float, int, A]] = []
        self._numbers = count()
        self.under_way = 0  # questions that were taken from here and are not answered

    def __contains__(self, attempt: A) -> bool:
        return attempt in self._due

    def put(self, attempt: A, at: float) -> None:
        """Ask about it then, and not at the time that was set before."""
        self._due[attempt] = at
        heapq.heappush(self._heap, (at, next(self._numbers), attempt))

    def discard(self, attempt: A) -> None:
        """Ask about it no more."""
        self._due.pop(attempt, None)

    def take(self, now: float) -> A | None:
        """The one that has been due for longest, which is not here any more then."""
        while self._heap and self._heap[0][0] <= now:
            at, _, attempt = heapq.heappop(self._heap)
            if self._due.get(attempt) == at:
                del self._due[attempt]
                return attempt
        return None
