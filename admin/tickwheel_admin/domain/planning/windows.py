"""When a trigger may get another start in its window without a night that has two fires or none."""

from __future__ import annotations

from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec

NEAR_MS = 3_600_000  # a fire that comes within the hour stays where it is


def may_move(old: WindowSpec, new: WindowSpec, *, now: int) -> bool:
    """Whether the next fires before and after the move belong to the same window, and are far.

    Calendars and bounds are left out of account: they take fires away, and move none.
    """
    next_old, next_new = (_next_window(spec, now) for spec in (old, new))
    return next_old is not None and next_old == next_new


def _next_window(spec: WindowSpec, now: int) -> int | None:
    """The day on which the window of the next fire begins; None: that fire is near, or none is."""
    at = spec.schedule(saved_at=0, calendar=None).next_after(now)
    if at is None or at <= now + NEAR_MS:
        return None
    # A fire at the end of a gap is later than its wall time, but never by a day.
    return (zone_of(spec.timezone).to_local(at // 1_000)[0] - spec.start) // DAY_SECONDS
