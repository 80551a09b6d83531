"""No fire before a first instant and none after a last one; both belong to the schedule."""

from __future__ import annotations

from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.triggers.spec import TriggerSpec


class Bounded:
    """The instants of a schedule from `start` to `end`, UTC epoch ms; None: open."""

    def __init__(self, inner: Schedule, *, start: int | None, end: int | None) -> None:
        self._inner = inner
        self._start = start
        self._end = end

    def next_after(self, instant: int) -> int | None:
        if self._start is not None:
            instant = max(instant, self._start - 1)
        if self._end is not None and instant >= self._end:
            return None
        found = self._inner.next_after(instant)
        return found if found is None or self._end is None or found <= self._end else None

    def last_before(self, instant: int) -> int | None:
        if self._end is not None:
            instant = min(instant, self._end + 1)
        if self._start is not None and instant <= self._start:
            return None
        found = self._inner.last_before(instant)
        return found if found is None or self._start is None or found >= self._start else None


def check_bounds(spec: TriggerSpec) -> None:
    """Refuse an end before the start."""
    if spec.start_at is not None and spec.end_at is not None and spec.end_at < spec.start_at:
        raise ScheduleError(
            "end_at",
            "This ends at %(end)s, before it starts at %(start)s.",
            end=instant_to_iso(spec.end_at),
            start=instant_to_iso(spec.start_at),
        )


def check_fires(spec: TriggerSpec, bounded: Schedule) -> None:
    """Refuse what has no instant within its bounds; what follows from when it is saved may.

    Calendars are not asked: they change, and a trigger that has no fire today may have some then.
    """
    if not spec.counts_from_save and bounded.next_after(-1) is None:
        raise spec.never_fires()
