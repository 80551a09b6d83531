"""Local dates on the time line."""

from __future__ import annotations

from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS
from tickwheel_admin.domain.schedule.zones import Zone


def local_day(instant: int, zone: Zone) -> int:
    """Days since 1970-01-01 of the date that clocks show at an instant (UTC epoch ms)."""
    return zone.to_local(instant // 1000)[0] // DAY_SECONDS


def day_limits(day: int, zone: Zone) -> tuple[int, int]:
    """Where a date begins and where the next one does, UTC epoch ms; equal for a skipped date."""
    return _midnight(day, zone), _midnight(day + 1, zone)


def _midnight(day: int, zone: Zone) -> int:
    wall = day * DAY_SECONDS
    shown = zone.instants_of(wall)
    instant = shown[0] if shown else zone.gap_end(wall)
    return (wall if instant is None else instant) * 1000
