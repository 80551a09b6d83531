"""The start within a window that was chosen by measurement, and what it was chosen by."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.schedule.describe.words import Translate, length
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, short_time


class PlacedBy(StrEnum):
    """Why a start was chosen."""

    LOAD = "load"  # the fewest slots are in use there
    LATEST = "latest"  # nothing is known of the load: the latest start that is in time
    TOO_LONG = "too_long"  # no start is in time: the first one


class WindowPlacement(Struct, frozen=True, kw_only=True):
    """Where in its window a trigger fires. It is no part of what people edit."""

    offset: int  # minutes after the window's begin
    by: PlacedBy
    chosen_at: int  # UTC epoch ms
    latest: int  # minutes after the window's begin: the latest start that was considered
    length_ms: int  # how long 19 of 20 runs took at most
    runs: int  # that were measured
    # By load only: slots that others use while it runs, on average over the nights ahead.
    in_use: float = 0.0
    in_use_at_latest: float = 0.0  # the same for the latest start
    slots: int = 0  # that there are
    former_at: int | None = None  # its last fire before the move, UTC epoch ms; None: none
    former_offset: int = 0  # where in its window that was, in minutes


class AfterMove:
    """A schedule from a move on; what was before it is what was there, as far as it is kept.

    So the fire after a move follows on the last one before it, and no time lies between their data
    intervals or belongs to both.
    """

    def __init__(self, after: Schedule, *, moved_at: int, former_at: int, begin: int) -> None:
        """Instants after `moved_at` are those of `after`.

        Args:
            former_at: the last fire before the move, UTC epoch ms.
            begin: of the window of that fire; fires before this one are as they would be now.
        """
        self._after = after
        self._moved_at, self._former_at, self._begin = moved_at, former_at, begin

    def next_after(self, instant: int) -> int | None:
        if instant < self._begin - 1:
            found = self._after.next_after(instant)
            if found is not None and found < self._begin:
                return found
        if instant < self._former_at:
            return self._former_at
        return self._after.next_after(max(instant, self._moved_at))

    def last_before(self, instant: int) -> int | None:
        if instant > self._moved_at:
            found = self._after.last_before(instant)
            if found is not None and found > self._moved_at:
                return found
        if instant > self._former_at:
            return self._former_at
        return self._after.last_before(min(instant, self._begin))


def clock_after(begin: int, minutes: int) -> str:
    """The wall time so many minutes after another one, which is in seconds since midnight."""
    return short_time((begin + minutes * 60) % DAY_SECONDS)


def placement_in_words(
    found: WindowPlacement, *, begin: int, done_by: int | None, _: Translate
) -> str:
    """The start, and what speaks for it.

    Args:
        begin: of the window, and `done_by`: both in seconds since midnight.
    """
    values = {
        "start": clock_after(begin, found.offset),
        "first": clock_after(begin, 0),
        "last": clock_after(begin, found.latest),
        "length": length(_whole_minutes(found.length_ms), _),
        "done_by": "" if done_by is None else short_time(done_by),
        "in_use": f"{found.in_use:.1f}",
        "at_latest": f"{found.in_use_at_latest:.1f}",
        "slots": found.slots,
    }
    match found.by:
        case PlacedBy.LOAD:
            text = _(
                "%(start)s: of the starts from %(first)s to %(last)s the one beside which others "
                "use the fewest slots: %(in_use)s of %(slots)s, and %(at_latest)s at %(last)s. "
                "19 of 20 runs take %(length)s at most"
            )
        case PlacedBy.LATEST if done_by is None:
            text = _("%(start)s: the end of its window, because no load is forecast")
        case PlacedBy.LATEST:
            text = _(
                "%(start)s: the latest start by which it is done by %(done_by)s, because no load "
                "is forecast. 19 of 20 runs take %(length)s at most"
            )
        case PlacedBy.TOO_LONG:
            text = _(
                "%(start)s: the first start, because no start is early enough to be done by "
                "%(done_by)s. 19 of 20 runs take %(length)s at most"
            )
    return text % values


def _whole_minutes(ms: int) -> int:
    """Rounded up, unless it is less than two minutes: then to the second."""
    unit = 1_000 if ms < 120_000 else 60_000
    return max(-(-ms // unit) * unit, 1_000)
