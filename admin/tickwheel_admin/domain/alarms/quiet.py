"""Quiet hours: whether something is told now, and when else."""

from __future__ import annotations

from tickwheel_admin.domain.alarms.rule import QuietHours
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.calendars.compiled import compiled
from tickwheel_admin.domain.calendars.filtered import AllowedTimes
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, seconds_of_time
from tickwheel_admin.domain.schedule.zones import Zone, zone_of

MAX_STEPS = 100  # from the end of one quiet time into the next


def quiet_until(quiet: QuietHours, now: int, *, calendar: Calendar | None = None) -> int:
    """When quiet hours end that hold at `now`; `now` itself if none hold. UTC ms.

    Hours that never end hold nothing back: what must be told would be lost.

    Args:
        calendar: what `quiet.calendar` names; None: it is not there, and holds nothing back.
    """
    zone = zone_of(quiet.timezone)
    allowed = None if calendar is None else AllowedTimes(compiled(calendar), zone)
    at = now
    for _ in range(MAX_STEPS):
        end = _end_of_window(quiet, zone, at)
        if end == at and allowed is not None:
            found = allowed.first_from(at)
            if found is None:
                return now
            end = found
        if end == at:
            return at
        at = end
    return now


def _end_of_window(quiet: QuietHours, zone: Zone, at: int) -> int:
    """The end of the daily window that holds at an instant, or the instant itself."""
    if quiet.from_time is None or quiet.to_time is None:
        return at
    start, end = seconds_of_time(quiet.from_time), seconds_of_time(quiet.to_time)
    local, _ = zone.to_local(at // 1000)
    day, second = divmod(local, DAY_SECONDS)
    if start < end:
        if not start <= second < end:
            return at
        return _instant(zone, day * DAY_SECONDS + end, at)
    if second >= start:
        return _instant(zone, (day + 1) * DAY_SECONDS + end, at)
    if second < end:
        return _instant(zone, day * DAY_SECONDS + end, at)
    return at


def _instant(zone: Zone, wall: int, after: int) -> int:
    """The first instant after another at which clocks show a wall time, or jump over it."""
    for second in zone.instants_of(wall):
        if second * 1000 > after:
            return second * 1000
    gap_end = zone.gap_end(wall)
    return after if gap_end is None else gap_end * 1000
