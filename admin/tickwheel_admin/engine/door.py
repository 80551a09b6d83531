"""How nodes get in: an admin that keeps them waiting cannot tell who is dead."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tickwheel_admin.store.database import DatabaseUnavailable

SLOW_SECONDS = 1.0  # to let a node in; more means that the database holds it up


class Door:
    """Watches how long it takes to let nodes in, in seconds of the running loop."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[int, float] = {}  # since when, oldest first
        self._troubled_at: float | None = None  # when last somebody had waited long, or in vain

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around what lets a node in."""
        number, began_at = next(self._numbers), _now()
        self._waiting[number] = began_at
        try:
            yield
        except DatabaseUnavailable:
            self._troubled_at = _now()
            raise
        finally:
            del self._waiting[number]
            if _now() - began_at > SLOW_SECONDS:
                self._troubled_at = _now()

    def has_been_open(self, seconds: float) -> bool:
        """Whether everybody got in at once for so long: who has not come since, did not knock."""
        now = _now()
        longest = next(iter(self._waiting.values()), now)
        if now - longest > SLOW_SECONDS:
            return False
        return self._troubled_at is None or now - self._troubled_at >= seconds


def _now() -> float:
    return asyncio.get_running_loop().time()
