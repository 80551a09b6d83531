"""Local dates, and the wall times of a trigger, on the time line."""

from __future__ import annotations

from dataclasses import replace

from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS
from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.triggers.trigger import TriggerKind, TriggerSpec

# What they fire at are wall times; the others fire at instants or after lengths.
WALL_TIME_KINDS = (TriggerKind.CRON, TriggerKind.CALENDAR_INTERVAL, TriggerKind.DAILY_WINDOW)


def by_plain_clocks(spec: TriggerSpec) -> TriggerSpec:
    """The same rules in UTC and without bounds: its fires are the wall times that they name.

    For kinds that name wall times. None of those is moved or comes twice.
    """
    return replace(spec, timezone="UTC", start_at=None, end_at=None)


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
