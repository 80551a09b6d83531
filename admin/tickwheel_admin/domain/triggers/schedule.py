"""When a trigger fires: one interface over every kind of schedule.

`parse` turns a trigger's spec into a `Schedule`. Planning, previews and edits know nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.calendars.compiled import CompiledCalendar, compiled
from tickwheel_admin.domain.calendars.filtered import AllowedTimes, Filtered
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.cron import Cron, parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.bounds import Bounded, check_bounds, check_fires
from tickwheel_admin.domain.triggers.kinds.calendar_interval import calendar_interval
from tickwheel_admin.domain.triggers.kinds.daily_window import daily_window
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRate, Never, Once, first_delay_ms
from tickwheel_admin.domain.triggers.trigger import TriggerKind, TriggerSpec

# What they fire at are wall times; the others fire at instants or after lengths.
WALL_TIME_KINDS = (TriggerKind.CRON, TriggerKind.CALENDAR_INTERVAL, TriggerKind.DAILY_WINDOW)


@lru_cache(maxsize=20_000)
def parse(spec: TriggerSpec, *, saved_at: int, calendar: Calendar | None = None) -> Schedule:
    """The schedule a spec describes.

    Args:
        saved_at: UTC epoch ms; where a fixed rate starts that names neither anchor nor start, and
            what the first fire of a fixed delay is counted from.
        calendar: what `spec.calendar` names; None: no fire is taken away.

    Raises:
        ScheduleError: the spec cannot be understood, or could never fire. One that fires never
            because of its calendar is not refused: calendars change.
    """
    check_bounds(spec)
    if spec.kind is TriggerKind.FIXED_DELAY:
        at = first_allowed(spec, saved_at + first_delay_ms(spec), calendar=calendar)
        return Never() if at is None else Once(at)
    if calendar is not None:
        parse(spec, saved_at=saved_at)  # refuses what never fires, whatever the calendar says
    leaves = None if calendar is None else compiled(calendar)
    schedule = _unbounded(spec, saved_at=saved_at, leaves=leaves)
    is_bounded = spec.start_at is not None or spec.end_at is not None
    if is_bounded:
        schedule = Bounded(schedule, start=spec.start_at, end=spec.end_at)
    if calendar is None and (is_bounded or spec.kind is not TriggerKind.CRON):
        check_fires(spec, schedule)
    zone = zone_of(spec.timezone)  # refuses an unknown one, whether it matters now or not
    if leaves is None or spec.kind in WALL_TIME_KINDS:
        return schedule
    return Filtered(schedule, AllowedTimes(leaves, zone))


def first_allowed(spec: TriggerSpec, instant: int, *, calendar: Calendar | None) -> int | None:
    """The first instant from `instant` on that a spec's bounds and its calendar leave.

    When a fixed delay fires: what a calendar would take away comes as soon as it may, because no
    other fire follows from one that does not happen. None: there is no such instant.
    """
    zone = zone_of(spec.timezone)
    at: int | None = instant if spec.start_at is None else max(instant, spec.start_at)
    if at is not None and calendar is not None:
        at = AllowedTimes(compiled(calendar), zone).first_from(at)
    return None if at is None or (spec.end_at is not None and at > spec.end_at) else at


def _unbounded(spec: TriggerSpec, *, saved_at: int, leaves: CompiledCalendar | None) -> Schedule:
    """The schedule of a kind; a calendar leaves wall times here, of the kinds that have them."""
    match spec.kind:
        case TriggerKind.CRON:
            expression = parse_cron(spec.expression or "", dialect_of(spec))
            zone = zone_of(spec.timezone)
            return Cron(expression, zone, gap=spec.gap, overlap=spec.overlap, calendar=leaves)
        case TriggerKind.FIXED_RATE:
            return FixedRate(spec, saved_at=saved_at)
        case TriggerKind.ONCE:
            return Once.of(spec)
        case TriggerKind.CALENDAR_INTERVAL:
            return calendar_interval(spec, leaves)
        case TriggerKind.DAILY_WINDOW:
            return daily_window(spec, leaves)
        case TriggerKind.FIXED_DELAY:
            raise ValueError("the end of a run says when a fixed delay fires")


def dialect_of(spec: TriggerSpec) -> Dialect:
    """How the expression of a cron trigger is read; raises ScheduleError."""
    try:
        return Dialect(spec.dialect or Dialect.UNIX)
    except ValueError:
        raise ScheduleError(
            "dialect",
            "“%(dialect)s” is not a cron dialect; use unix, quartz or spring.",
            dialect=spec.dialect,
        ) from None


def by_plain_clocks(spec: TriggerSpec) -> TriggerSpec:
    """The same rules in UTC and without bounds: its fires are the wall times that they name.

    For kinds that name wall times. None of those is moved or comes twice.
    """
    return replace(spec, timezone="UTC", start_at=None, end_at=None)
