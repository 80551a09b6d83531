"""The next fires of a trigger, with what is special about them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from msgspec import structs

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.calendars.compiled import compiled
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap
from tickwheel_admin.domain.schedule.local_days import day_limits, local_day
from tickwheel_admin.domain.schedule.wall_clock import date_of_day
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.triggers.schedule import by_plain_clocks, parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec, WallTimeSpec

MAX_PREVIEW = 1_000
MAX_REMOVED = 20
_MAX_LOOKED_AT = 1_000  # days on which a trigger without its calendar would fire


class Mark(StrEnum):
    """What the clocks of the zone do about a fire."""

    GAP = "gap"  # moved: clocks skip its wall time when they go forward
    OVERLAP_FIRST = "overlap_first"  # clocks show its wall time twice; this is the first pass
    OVERLAP_SECOND = "overlap_second"
    DST_NIGHT = "dst_night"  # clocks change on its date, which does not touch it


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewFire:
    """A fire to come."""

    at: int  # UTC epoch ms
    offset_minutes: int  # of the zone's clocks from UTC, then
    mark: Mark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedDay:
    """A date on which a calendar takes every fire away."""

    date: str  # "2026-10-01", in the trigger's zone; the scheduled one, where a gap moves fires
    calendar: str  # its name; the one of the chain that takes the first fire of the day


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What comes."""

    fires: tuple[PreviewFire, ...]  # ascending
    removed: tuple[RemovedDay, ...]  # ascending, at most MAX_REMOVED


def preview(
    spec: TriggerSpec, *, after: int, n: int, saved_at: int, calendar: Calendar | None = None
) -> Preview:
    """The next fires strictly after an instant, and the dates up to the last that were removed.

    Args:
        after: UTC epoch ms.
        n: how many at most, up to MAX_PREVIEW; fewer when the trigger ends before, or repeats less.
        saved_at: as for `parse`.

    Raises:
        ScheduleError: as `parse`.
    """
    schedule = parse(spec, saved_at=saved_at, calendar=calendar)
    zone = zone_of(spec.timezone)
    most = min(n, MAX_PREVIEW, MAX_PREVIEW if spec.repeat_count is None else spec.repeat_count)
    instants: list[int] = []
    at = schedule.next_after(after)
    while at is not None and len(instants) < most:
        instants.append(at)
        at = schedule.next_after(at)
    fires = tuple(_fire(at, spec, zone, saved_at, calendar) for at in instants)
    if calendar is None or most == 0 or spec.follows_runs:
        return Preview(fires=fires, removed=())
    until = instants[-1] if len(instants) == most else spec.end_at
    if spec.has_wall_times:
        # Calendars go by the wall times that are scheduled, so these are gone through here.
        start = after if spec.start_at is None else max(after, spec.start_at - 1)
        after = _wall_ms(start, zone)
        until = None if until is None else _wall_ms(until, zone)
        spec, zone = by_plain_clocks(spec), zone_of("UTC")
        schedule = parse(spec, saved_at=saved_at, calendar=calendar)
    everything = parse(spec, saved_at=saved_at)
    removed = _removed(everything, schedule, zone, calendar, after=after, until=until)
    return Preview(fires=fires, removed=removed)


def _wall_ms(instant: int, zone: Zone) -> int:
    """What clocks show at an instant (UTC epoch ms), as if it were UTC."""
    return instant + zone.segment_at(instant // 1000).offset * 1000


def _fire(
    at: int, spec: TriggerSpec, zone: Zone, saved_at: int, calendar: Calendar | None
) -> PreviewFire:
    offset = zone.segment_at(at // 1000).offset
    mark = None
    if isinstance(spec, WallTimeSpec):
        mark = _mark(at, spec, zone, saved_at, calendar)
    return PreviewFire(at=at, offset_minutes=offset // 60, mark=mark)


def _mark(
    at: int, spec: WallTimeSpec, zone: Zone, saved_at: int, calendar: Calendar | None
) -> Mark | None:
    second = at // 1000
    segment = zone.segment_at(second)
    went_forward = second == segment.start and segment.offset > segment.before
    if went_forward and _was_moved(at, spec, saved_at, calendar):
        return Mark.GAP
    shown = zone.instants_of(second + segment.offset)
    if len(shown) > 1:
        return Mark.OVERLAP_FIRST if second == shown[0] else Mark.OVERLAP_SECOND
    start, end = day_limits(local_day(at, zone), zone)
    changes = zone.transitions_between(start // 1000, end // 1000)
    return Mark.DST_NIGHT if any(each.before != each.after for each in changes) else None


def _was_moved(at: int, spec: WallTimeSpec, saved_at: int, calendar: Calendar | None) -> bool:
    """Whether a fire right after a gap is one only because of the wall times within the gap."""
    try:
        skipping = parse(structs.replace(spec, gap=Gap.SKIP), saved_at=saved_at, calendar=calendar)
    except ScheduleError:
        return True  # this is its only fire
    return skipping.next_after(at - 1) != at


def _removed(
    everything: Schedule,
    schedule: Schedule,
    zone: Zone,
    calendar: Calendar,
    *,
    after: int,
    until: int | None,
) -> tuple[RemovedDay, ...]:
    leaves = compiled(calendar)
    removed: list[RemovedDay] = []
    at = everything.next_after(after)
    kept = schedule.next_after(after)
    for _ in range(_MAX_LOOKED_AT):
        if at is None or (until is not None and at > until) or len(removed) == MAX_REMOVED:
            break
        day = local_day(at, zone)
        _, end = day_limits(day, zone)
        if kept is not None and kept < at:
            kept = schedule.next_after(at - 1)
        if kept is None or kept >= end:
            name = leaves.who_refuses(zone.to_local(at // 1000)[0])
            removed.append(RemovedDay(date=str(date_of_day(day)), calendar=name or calendar.name))
        at = everything.next_after(max(end - 1, at))
    return tuple(removed)
