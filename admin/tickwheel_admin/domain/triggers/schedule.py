"""When a trigger fires: one interface over every kind of schedule.

`parse` turns a trigger's spec into a `Schedule`. Planning, previews and edits know nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

from msgspec import structs

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.calendars.compiled import compiled
from tickwheel_admin.domain.calendars.filtered import AllowedTimes, Filtered
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.single import Never, Single
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.bounds import Bounded, check_bounds, check_fires
from tickwheel_admin.domain.triggers.spec import TriggerSpec

S = TypeVar("S", bound=TriggerSpec)


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
    if spec.follows_runs:
        at = first_allowed(spec, spec.first_at(saved_at), calendar=calendar)
        return Never() if at is None else Single(at)
    if calendar is not None:
        parse(spec, saved_at=saved_at)  # refuses what never fires, whatever the calendar says
    leaves = None if calendar is None else compiled(calendar)
    schedule = spec.schedule(saved_at=saved_at, calendar=leaves)
    is_bounded = spec.start_at is not None or spec.end_at is not None
    if is_bounded:
        schedule = Bounded(schedule, start=spec.start_at, end=spec.end_at)
    if calendar is None and (is_bounded or not spec.is_proven_to_fire):
        check_fires(spec, schedule)
    zone = zone_of(spec.timezone)  # refuses an unknown one, whether it matters now or not
    if leaves is None or spec.has_wall_times:
        return schedule
    return Filtered(schedule, AllowedTimes(leaves, zone))


def calendar_of(spec: TriggerSpec, calendars: Mapping[str, Calendar]) -> Calendar | None:
    """The calendar that a spec names; None: it names none.

    Raises:
        ScheduleError: it is not there, so no fire can be computed.
    """
    if spec.calendar is None:
        return None
    if spec.calendar not in calendars:
        raise ScheduleError(
            "calendar", "There is no calendar named “%(name)s”.", name=spec.calendar
        )
    return calendars[spec.calendar]


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


def by_plain_clocks(spec: S) -> S:
    """The same rules in UTC and without bounds: its fires are the wall times that they name.

    For kinds that name wall times. None of those is moved or comes twice.
    """
    return structs.replace(spec, timezone="UTC", start_at=None, end_at=None)
