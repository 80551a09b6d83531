"""When a trigger should fire within an hour, and which wall times these fires are for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.self_audit.calendar_rules import allows
from tickwheel_admin.domain.self_audit.wall_times import WallTimes, wall_times
from tickwheel_admin.domain.self_audit.zone_hours import wall_second, zone_hours
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec, WallTimeSpec

# Of one fire: the wall times it stands for. More than one where the clocks skip an hour.
Walls = tuple[int, ...]


def instants_of(spec: TriggerSpec, *, saved_at: int, begin: int, end: int) -> dict[int, Walls]:
    """The instants from `begin` to before `end`, UTC epoch ms, whatever its calendar says.

    Without those of a fixed delay, which follow from the ends of its runs.

    Args:
        saved_at: where a fixed rate starts that names neither anchor nor start.

    Raises:
        UnreadableExpression: the trigger cannot be audited.
    """
    begin = begin if spec.start_at is None else max(begin, spec.start_at)
    end = end if spec.end_at is None else min(end, spec.end_at + 1)
    if begin >= end or isinstance(spec, FixedDelaySpec):
        return {}
    match spec:
        case OnceSpec(at=at):
            found = [at] if at is not None and begin <= at < end else []
        case FixedRateSpec(every_ms=every, anchor_at=anchor) if every:
            start = saved_at if spec.start_at is None else spec.start_at
            anchor = start if anchor is None else anchor
            first = anchor if begin <= anchor else anchor + -(-(begin - anchor) // every) * every
            found = list(range(first, end, every))
        case WallTimeSpec():
            return dict(_by_the_clock(spec, begin, end))
        case _:
            found = []
    if spec.calendar is None:
        return dict.fromkeys(found, ())
    zone = spec.timezone or "UTC"
    return {at: (wall_second(zone, at // 1_000),) for at in found}


def left_by(calendar: Sequence[CalendarSpec], walls: Walls) -> bool:
    """Whether a calendar leaves a fire: one of the wall times that it stands for."""
    return not walls or any(allows(calendar, wall) for wall in walls)


def _by_the_clock(spec: WallTimeSpec, begin: int, end: int) -> Iterator[tuple[int, Walls]]:
    times = wall_times(spec)
    if times is None:
        return
    # Whole hours, so that what the clocks show is computed once for all triggers of a zone.
    first, last = begin // 3_600_000 * 3_600, -(-end // 3_600_000) * 3_600
    hours = zone_hours(spec.timezone or "UTC", first, last)
    passes = _passes(spec, times)
    for part in hours.parts:
        skipped: Walls = ()
        if part.skipped and spec.gap is Gap.FIRE and not times.covers_all_hours:
            skipped = tuple(times.between(*part.skipped))
        shown = (
            wall
            for wall in times.between(part.begin + part.offset, part.end + part.offset)
            if hours.pass_of(wall, part.offset) in passes
        )
        found: dict[int, Walls] = {}
        if skipped:
            found[part.begin] = skipped
        for wall in shown:
            at = wall - part.offset
            found[at] = tuple(chain(found.get(at, ()), (wall,)))
        for at, walls in found.items():
            if begin <= at * 1_000 < end:
                yield at * 1_000, walls


def _passes(spec: WallTimeSpec, times: WallTimes) -> tuple[int, ...]:
    """In which passes of a wall time that is shown twice it fires; 0 is one that is not."""
    overlap = spec.overlap if spec.overlap is not Overlap.AUTO else Overlap(times.overlap)
    return {Overlap.FIRST: (0, 1), Overlap.SECOND: (0, 2), Overlap.BOTH: (0, 1, 2)}[overlap]
