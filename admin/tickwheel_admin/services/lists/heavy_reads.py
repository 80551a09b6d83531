"""Reads that compute for long: few at once, one of each person, and never in the way of the engine.

Python computes in one thread at a time, so one that computes for long holds up all others, those of
the engine included. Such work breathes: every few milliseconds it rests for as long, and whoever
waits goes first.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tickwheel_admin.domain.errors import TooMany

MAX_AT_ONCE = 2  # of everybody
MAX_OF_USER = 8  # that wait or are under way; they are done one after the other
RETRY_SECONDS = 2
WORK_SECONDS = 0.002  # at a stretch


class HeavyReads:
    """Lets people do such reads in turns. Used from the event loop's thread only."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self._of_user: Counter[int] = Counter()
        self._turns: dict[int, asyncio.Lock] = {}

    @asynccontextmanager
    async def turn(self, user_id: int) -> AsyncIterator[None]:
        """Wait for this person's turn; raises TooMany when they have too many already."""
        if self._of_user[user_id] >= MAX_OF_USER:
            raise TooMany(
                "reads.too_many",
                "Too many searches of yours are under way; try again in %(retry_after_seconds)d s.",
                retry_after_seconds=RETRY_SECONDS,
            )
        self._of_user[user_id] += 1
        turn = self._turns.setdefault(user_id, asyncio.Lock())
        try:
            async with turn, self._places:
                yield
        finally:
            self._of_user[user_id] -= 1
            if not self._of_user[user_id]:
                del self._of_user[user_id]
                del self._turns[user_id]


class Breath:
    """Rests after every few milliseconds of work. For threads, each its own."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.perf_counter,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock
        self._rest = rest
        self._since = clock()

    def take(self) -> None:
        """To be called often; rests when it is time."""
        worked = self._clock() - self._since
        if worked >= WORK_SECONDS:
            self._rest(min(worked, 10 * WORK_SECONDS))
            self._since = self._clock()
