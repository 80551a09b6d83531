"""How nodes get in: an admin that keeps them waiting cannot tell who is dead.

It gives them time, but not for ever: whoever keeps the door busy, with tokens that are none or
with sockets that come and go, must not keep the dead from being declared dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tickwheel_admin.store.database.database import DatabaseUnavailable

SLOW_SECONDS = 1.0  # to let a node in; more means that the database holds it up
QUIET_SECONDS = 15.0  # after which who has not come did not knock
MAX_HOLD_SECONDS = 60.0  # that deaths wait for the door in one go


class Door:
    """Watches how long it takes to let nodes in, in seconds of the running loop."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[int, float] = {}  # since when, oldest first
        self._troubled_at: float | None = None  # when last somebody had waited long, or in vain
        self._trouble_began_at = 0.0  # without a quiet time since

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around what lets a node in."""
        number, began_at = next(self._numbers), _now()
        self._waiting[number] = began_at
        try:
            yield
        except DatabaseUnavailable:
            self._note_trouble(began_at)
            raise
        finally:
            del self._waiting[number]
            if _now() - began_at > SLOW_SECONDS:
                self._note_trouble(began_at)

    def holds_back(self, *, since: float) -> bool:
        """Whether those who seem dead may be waiting here, or may just have been turned away.

        Args:
            since: when all else was well enough to declare anything dead: what went before, such
                as an outage of the database, uses up none of the time that nodes are given.
        """
        began_at = self._shut_since()
        return began_at is not None and _now() - max(began_at, since) < MAX_HOLD_SECONDS

    def _shut_since(self) -> float | None:
        """Since when there was no quiet time; None: there is one."""
        now = _now()
        longest = next(iter(self._waiting.values()), now)
        if now - longest > SLOW_SECONDS:
            return self._trouble_began_at if self._is_troubled(longest) else longest
        return self._trouble_began_at if self._is_troubled(now) else None

    def _note_trouble(self, began_at: float) -> None:
        if not self._is_troubled(began_at):
            self._trouble_began_at = began_at
        self._troubled_at = _now()

    def _is_troubled(self, at: float) -> bool:
        return self._troubled_at is not None and at - self._troubled_at < QUIET_SECONDS


def _now() -> float:
    return asyncio.get_running_loop().time()
