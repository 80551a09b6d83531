"""Whether anybody wants events of runs, as this process knows it: transactions do not ask.

The copy is renewed with the lease of the admin. One that is not fresh counts as "wanted": a process
that was frozen, and one that never asks, such as the command line, leave no event out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from tickwheel_admin.domain.runs.events import FRESH_SECONDS

OPTION: Final = "tickwheel_event_interest"  # of engines
_SKIPPED: Final = "tickwheel_events_skipped"  # in `info` of connections


class EventInterest:
    """One process's copy. Safe to use from threads."""

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Nothing is known yet.

        Args:
            monotonic: seconds; stands still while a virtual machine is paused.
            wall: seconds; somebody may set it. The copy is fresh while both say so.
        """
        self._clocks = (monotonic, wall)
        self._unwanted_at: tuple[float, ...] | None = None  # None: wanted, or not known

    def now(self) -> tuple[float, ...]:
        """When a question is asked, for `learn`."""
        return tuple(clock() for clock in self._clocks)

    def learn(self, *, wanted: bool, asked_at: tuple[float, ...]) -> None:
        """What the database says; what was committed after `asked_at` may be missing."""
        self._unwanted_at = None if wanted else asked_at

    @property
    def wanted(self) -> bool:
        """Whether events are to be written now."""
        asked_at = self._unwanted_at
        if asked_at is None:
            return True
        passed = (now - then for now, then in zip(self.now(), asked_at, strict=True))
        return not all(0 <= each <= FRESH_SECONDS for each in passed)


class NobodyInterested(EventInterest):
    """Of a process that is sure of it, as a benchmark is."""

    @property
    def wanted(self) -> bool:
        return False


def interest_of(conn: sa.Connection) -> EventInterest | None:
    """The copy of the process whose connection it is; None: it has none."""
    found: EventInterest | None = conn.get_execution_options().get(OPTION)
    return found


def wants_events(conn: sa.Connection) -> bool:
    """Whether this transaction must write the events of what it does.

    Where it need not, that is checked once more before it commits (`left_events_out`).
    """
    interest = interest_of(conn)
    if interest is None or interest.wanted:
        return True
    conn.info[_SKIPPED] = True
    return False


def left_events_out(conn: sa.Connection) -> bool:
    """Whether the transaction wrote no events that are wanted by now; to be asked at its end."""
    skipped = conn.info.pop(_SKIPPED, False)
    interest = interest_of(conn)
    return bool(skipped) and interest is not None and interest.wanted
