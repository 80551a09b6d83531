"""Why a trigger does or does not fire on a date: each rule that stands against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.calendars.compiled import compiled
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap
from tickwheel_admin.domain.schedule.local_days import day_limits
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, date_of_day, day_of_date
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.triggers.reason import Reason
from tickwheel_admin.domain.triggers.schedule import by_plain_clocks, parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec, WallTimeSpec

MAX_FIRES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a trigger does on a date of its zone."""

    fires: tuple[int, ...]  # UTC epoch ms, at most the first MAX_FIRES
    reasons: tuple[Reason, ...]  # why there are none; empty when there are some


def explain(
    spec: TriggerSpec, *, date: str, saved_at: int, calendar: Calendar | None = None
) -> Explanation:
    """The fires on a date, or every reason why there are none.

    Args:
        date: “2026-10-01”, from 1970 to 2199, by the clocks of the trigger's zone.
        saved_at: as for `parse`.

    Raises:
        ScheduleError: as `parse`, and for a date that is none.
    """
    try:
        day = day_of_date(date)
    except ValueError:
        raise ScheduleError(
            "date", "This must be a date from 1970-01-01 to 2199-12-31, such as 2026-10-01."
        ) from None
    schedule = parse(spec, saved_at=saved_at, calendar=calendar)
    zone = zone_of(spec.timezone)
    start, end = day_limits(day, zone)
    fires = _between(schedule, start, end)
    if fires:
        return Explanation(fires=fires, reasons=())
    if start == end:
        skipped = Reason(
            code="no_such_day",
            template="The clocks of %(timezone)s skipped this date.",
            params={"timezone": zone.name},
        )
        return Explanation(fires=(), reasons=(skipped,))
    if spec.follows_runs:
        return Explanation(fires=(), reasons=tuple(spec.why_not_on(day, schedule, zone)))
    everything = parse(spec.unbounded(), saved_at=saved_at)
    reasons = (
        *_by_bounds(spec, _between(everything, start, end), start, end),
        *_by_kind(spec, everything, day, zone),
        *_by_calendar(spec, everything, calendar, day, zone),
    )
    return Explanation(fires=(), reasons=reasons)


def _between(schedule: Schedule, start: int, end: int) -> tuple[int, ...]:
    fires: list[int] = []
    at = schedule.next_after(start - 1)
    while at is not None and at < end and len(fires) < MAX_FIRES:
        fires.append(at)
        at = schedule.next_after(at)
    return tuple(fires)


# --- rules of every kind -----------------------------------------------------------------------


def _by_bounds(spec: TriggerSpec, fires: tuple[int, ...], start: int, end: int) -> Iterator[Reason]:
    first, last = (fires[0], fires[-1]) if fires else (end - 1, start)
    if spec.start_at is not None and spec.start_at > first:
        yield Reason(
            code="before_start",
            template="It does not fire before %(start)s, where it starts.",
            params={"start": instant_to_iso(spec.start_at)},
        )
    if spec.end_at is not None and spec.end_at < last:
        yield Reason(
            code="after_end",
            template="It does not fire after %(end)s, where it ends.",
            params={"end": instant_to_iso(spec.end_at)},
        )


def _by_calendar(
    spec: TriggerSpec, everything: Schedule, calendar: Calendar | None, day: int, zone: Zone
) -> Iterator[Reason]:
    if calendar is None:
        return
    leaves = compiled(calendar)
    date = date_of_day(day)
    name = None
    if not leaves.days(date.year, date.month) >> date.day & 1:
        name = leaves.who_refuses(day * DAY_SECONDS)
    else:
        if spec.has_wall_times:
            zone = zone_of("UTC")
            everything = parse(by_plain_clocks(spec), saved_at=0)
        start, end = day_limits(day, zone)
        walls = (zone.to_local(at // 1000)[0] for at in _between(everything, start, end))
        name = next(filter(None, map(leaves.who_refuses, walls)), None)
    if name is not None:
        yield Reason(
            code="calendar",
            template="The calendar “%(calendar)s” takes this date away.",
            params={"calendar": name},
        )


# --- rules of its kind -------------------------------------------------------------------------


def _by_kind(spec: TriggerSpec, everything: Schedule, day: int, zone: Zone) -> Iterator[Reason]:
    start, end = day_limits(day, zone)
    if _between(everything, start, end):
        return
    found = tuple(spec.why_not_on(day, everything, zone))
    yield from found or (_by_clocks(spec),)


def _by_clocks(spec: TriggerSpec) -> Reason:
    """The day counts, and yet no wall time of it does."""
    if isinstance(spec, WallTimeSpec) and spec.gap is Gap.SKIP:
        return Reason(
            code="gap_skipped",
            template="The clocks go forward over its times on this date, and it skips those.",
        )
    return Reason(
        code="clocks",
        template="The clocks change on this date, and none of its times is left.",
    )
