"""Schedules that are arithmetic: a fixed rate, a fixed delay, and one single instant."""

from __future__ import annotations

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.trigger import MAX_EVERY_MS, MIN_EVERY_MS, TriggerSpec


class FixedRate:
    """anchor + k * every for every k >= 0: no drift, however late a run is."""

    def __init__(self, spec: TriggerSpec, *, saved_at: int) -> None:
        every = spec.every_ms
        if every is None or not MIN_EVERY_MS <= every <= MAX_EVERY_MS:
            raise ScheduleError(
                "every_seconds",
                "A fixed rate needs an interval from 0.1 seconds to 366 days.",
            )
        self._every = every
        start = saved_at if spec.start_at is None else spec.start_at
        self._anchor = start if spec.anchor_at is None else spec.anchor_at

    def next_after(self, instant: int) -> int | None:
        if instant < self._anchor:
            return self._anchor
        return self._anchor + ((instant - self._anchor) // self._every + 1) * self._every

    def last_before(self, instant: int) -> int | None:
        if instant <= self._anchor:
            return None
        return self._anchor + ((instant - 1 - self._anchor) // self._every) * self._every


class Once:
    """A single instant."""

    def __init__(self, at: int) -> None:
        self._at = at

    @classmethod
    def of(cls, spec: TriggerSpec) -> Once:
        """The instant that a spec names; raises ScheduleError."""
        if spec.at is None:
            raise ScheduleError("at", "A one-off trigger needs the instant at which it fires.")
        return cls(spec.at)

    def next_after(self, instant: int) -> int | None:
        return self._at if instant < self._at else None

    def last_before(self, instant: int) -> int | None:
        return self._at if instant > self._at else None


class Never:
    """No instant at all."""

    def next_after(self, instant: int) -> int | None:
        return None

    def last_before(self, instant: int) -> int | None:
        return None


def first_delay_ms(spec: TriggerSpec) -> int:
    """How long after it is saved a fixed delay fires first; raises ScheduleError."""
    every = spec.every_ms
    if every is None or not MIN_EVERY_MS <= every <= MAX_EVERY_MS:
        raise ScheduleError(
            "every_seconds", "A fixed delay needs a length from 0.1 seconds to 366 days."
        )
    initial = every if spec.initial_delay_ms is None else spec.initial_delay_ms
    if not 0 <= initial <= MAX_EVERY_MS:
        raise ScheduleError(
            "initial_delay_seconds", "The first delay has a length from 0 seconds to 366 days."
        )
    return initial
