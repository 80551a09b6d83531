"""How many calls one executor's process has at the same time, and which of them comes next."""

from __future__ import annotations

import asyncio
from collections import deque

MAX_CALLS_PER_NODE = 20
_RESERVED = 4  # of those for calls that must come through: is it there, end that run
_MAX_CALLS_WHILE_SILENT = 2  # besides the urgent ones, to a node that let a call time out


class NoPlace(Exception):
    """No other call to the node ended in time."""


class NodePlaces:
    """The calls that one executor's process has at the moment."""

    __slots__ = ("_count", "_ordinary", "_urgent", "is_silent")

    def __init__(self) -> None:
        self._count = 0
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._ordinary: deque[asyncio.Future[None]] = deque()
        self.is_silent = False  # its last answer did not come

    @property
    def is_in_use(self) -> bool:
        return bool(self._count or self._urgent or self._ordinary)

    def enter(self, *, is_urgent: bool) -> bool:
        """Take a place, if one is free."""
        if self._count >= self._places(is_urgent):
            return False
        self._count += 1
        return True

    async def wait(self, *, is_urgent: bool, seconds: float) -> float:
        """Wait for a place; returns for how many seconds.

        Raises:
            NoPlace: none came free in time.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        place: asyncio.Future[None] = loop.create_future()
        waiting = self._urgent if is_urgent else self._ordinary
        waiting.append(place)
        try:
            async with asyncio.timeout(seconds):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.leave()  # it came free in the same moment
            elif place in waiting:
                waiting.remove(place)
            if isinstance(error, TimeoutError):
                raise NoPlace from None
            raise
        return loop.time() - began

    def leave(self) -> None:
        """Give the place back."""
        self._count -= 1
        for is_urgent, waiting in ((True, self._urgent), (False, self._ordinary)):
            while waiting and self._count < self._places(is_urgent):
                place = waiting.popleft()
                if not place.done():  # else its call was given up
                    self._count += 1
                    place.set_result(None)

    def _places(self, is_urgent: bool) -> int:
        if is_urgent:
            return MAX_CALLS_PER_NODE
        return _MAX_CALLS_WHILE_SILENT if self.is_silent else MAX_CALLS_PER_NODE - _RESERVED
