"""Stops attempts that must not overlap with another run before the node's lease expires.

When the lease is over, admins may start the work of a node elsewhere. So after four fifths of the
lease, counted from the sending of the newest heartbeat that an admin acknowledged, the node stops
these attempts. The rest of the lease is for the handlers to clean up.

A timer is set for that instant. If the process was suspended, the timer is late, and callbacks that
were ready may run before it: so each step of such a handler checks the time first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tickwheel_executor.attempt_key import Key
from tickwheel_executor.link.links import AdminLinks

from .attempt import InFlightAttempt


class LeaseGuard:
    """Watches these attempts. `stop` is called once for each, when it must end."""

    def __init__(self, links: AdminLinks, stop: Callable[[InFlightAttempt], None]) -> None:
        self._links = links
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._watched: dict[Key, InFlightAttempt] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, attempt: InFlightAttempt) -> None:
        """Stop this attempt when the node is cut off from the admins."""
        self._watched[attempt.key] = attempt
        self.aim()

    def forget(self, attempt: InFlightAttempt) -> None:
        """It has ended."""
        self._watched.pop(attempt.key, None)

    def must_stop(self, attempt: InFlightAttempt) -> bool:
        """Called before each step of its handler; True when this call stopped it."""
        if self._loop.time() < self._links.cut_off_at or attempt.key not in self._watched:
            return False
        self._stop_all()
        return True

    def aim(self) -> None:
        """Set the timer. Also needed after a new welcome, which may shorten the lease."""
        at = self._links.cut_off_at
        if self._timer is not None:
            if self._timer.when() <= at:
                return  # set again when it fires
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self._fire, at) if self._watched else None

    def close(self) -> None:
        """The node ends."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _fire(self, aimed_at: float) -> None:
        self._timer = None
        # A loop may fire a moment early: the instant that was set counts, not the clock.
        if self._links.cut_off_at <= max(aimed_at, self._loop.time()):
            self._stop_all()
        else:
            self.aim()

    def _stop_all(self) -> None:
        watched, self._watched = list(self._watched.values()), {}
        for attempt in watched:
            self._stop(attempt)
