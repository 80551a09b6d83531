"""How long nodes wait to be admitted: an admin that keeps them waiting cannot tell who is dead.

While admission is slow or fails, the admin declares no node dead, but for a minute at most: clients
that send invalid tokens, or that connect and disconnect all the time, must not keep dead nodes from
being declared dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tickwheel_admin.store.database.database import DatabaseUnavailable

SLOW_SECONDS = 1.0  # to admit a node; more means that the database delays it
QUIET_SECONDS = 15.0  # without trouble; a node that has not come by then did not try
MAX_HOLD_SECONDS = 60.0  # for which trouble without a pause delays expiry


class NodeAdmission:
    """Measures how long nodes take to be admitted, in seconds of the running loop."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[int, float] = {}  # since when, oldest first
        self._troubled_at: float | None = None  # when last an admission was slow or failed
        self._trouble_began_at = 0.0  # without a quiet time since

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Around one step of admitting a node."""
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

    def delays_expiry(self, *, since: float) -> bool:
        """Whether nodes that seem dead may be waiting here, or may just have been turned away.

        Args:
            since: when all other conditions for declaring anything dead were met. Trouble before
                that, such as an outage of the database, does not count towards the minute.
        """
        began_at = self._in_trouble_since()
        return began_at is not None and _now() - max(began_at, since) < MAX_HOLD_SECONDS

    def _in_trouble_since(self) -> float | None:
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
