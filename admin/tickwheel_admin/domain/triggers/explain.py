"""Why a trigger does or does not fire on a date: each rule that stands against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.calendars.compiled import compiled
from tickwheel_admin.domain.fields import as_seconds, instant_to_iso
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap
from tickwheel_admin.domain.schedule.cron import CronExpression, FieldKind, parse_cron
from tickwheel_admin.domain.schedule.cron.days import days_of_month, days_of_week
from tickwheel_admin.domain.schedule.cron.fields import MONTH_WORDS, WEEKDAY_WORDS
from tickwheel_admin.domain.schedule.cron.months import SHAPE_OF_MONTH, SHAPES
from tickwheel_admin.domain.schedule.local_days import day_limits, local_day
from tickwheel_admin.domain.schedule.wall_clock import (
    DAY_SECONDS,
    MIN_YEAR,
    date_of_day,
    day_of_date,
)
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.triggers.schedule import (
    WALL_TIME_KINDS,
    by_plain_clocks,
    dialect_of,
    parse,
)
from tickwheel_admin.domain.triggers.trigger import TriggerKind, TriggerSpec

MAX_FIRES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One rule that keeps a trigger from firing on a date."""

    code: str  # stable, for programs
    template: str  # English message id
    params: dict[str, Any] = field(default_factory=dict)


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
    if spec.kind is TriggerKind.FIXED_DELAY:
        return Explanation(fires=(), reasons=(_follows_a_run(spec),))
    everything = parse(_unbounded(spec), saved_at=saved_at)
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


def _unbounded(spec: TriggerSpec) -> TriggerSpec:
    """The same trigger without start and end, with the anchor that its start gives it."""
    anchor = spec.anchor_at
    if spec.kind is TriggerKind.FIXED_RATE and anchor is None:
        anchor = spec.start_at
    return replace(spec, start_at=None, end_at=None, anchor_at=anchor)


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
        if spec.kind in WALL_TIME_KINDS:
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


# --- rules of one kind -------------------------------------------------------------------------


def _by_kind(spec: TriggerSpec, everything: Schedule, day: int, zone: Zone) -> Iterator[Reason]:
    start, end = day_limits(day, zone)
    if _between(everything, start, end):
        return
    found = False
    if spec.kind is TriggerKind.CRON:
        expression = parse_cron(spec.expression or "", dialect_of(spec))
        for reason in _by_expression(expression, day):
            found = True
            yield reason
    elif spec.kind is TriggerKind.DAILY_WINDOW:
        weekday = date_of_day(day).isoweekday()
        if spec.weekdays and weekday not in spec.weekdays:
            found = True
            yield _weekday(weekday)
    else:
        found = True
        yield _between_fires(spec, everything, start, zone)
    if not found:
        yield _by_clocks(spec)


def _by_expression(expression: CronExpression, day: int) -> Iterator[Reason]:
    date = date_of_day(day)
    fields = expression.fields
    if not fields[FieldKind.YEAR].mask >> date.year - MIN_YEAR & 1:
        yield Reason(
            code="year",
            template="The year field “%(field)s” leaves %(year)s out.",
            params={"field": fields[FieldKind.YEAR].text, "year": str(date.year)},
        )
    if not fields[FieldKind.MONTH].mask >> date.month & 1:
        yield Reason(
            code="month",
            template="The month field “%(field)s” leaves %(month)s out.",
            params={
                "field": fields[FieldKind.MONTH].text,
                "month": MONTH_WORDS[date.month - 1],
            },
        )
    shape = SHAPES[SHAPE_OF_MONTH[12 * (date.year - MIN_YEAR) + date.month - 1]]
    in_month = days_of_month(fields[FieldKind.DAY_OF_MONTH], shape) >> date.day - 1 & 1
    in_week = days_of_week(fields[FieldKind.DAY_OF_WEEK], shape) >> date.day - 1 & 1
    if expression.either_day and (in_month or in_week):
        return
    if not in_month:
        yield Reason(
            code="day_of_month",
            template="The day-of-month field “%(field)s” leaves day %(day)s of this month out.",
            params={"field": fields[FieldKind.DAY_OF_MONTH].text, "day": str(date.day)},
        )
    if not in_week:
        yield Reason(
            code="day_of_week",
            template="The day-of-week field “%(field)s” leaves this %(weekday)s out.",
            params={
                "field": fields[FieldKind.DAY_OF_WEEK].text,
                "weekday": WEEKDAY_WORDS[date.isoweekday() % 7],
            },
        )


def _weekday(weekday: int) -> Reason:
    return Reason(
        code="weekday",
        template="Its weekdays leave %(weekday)s out.",
        params={"weekday": WEEKDAY_WORDS[weekday % 7]},
    )


def _between_fires(spec: TriggerSpec, everything: Schedule, start: int, zone: Zone) -> Reason:
    """Of kinds that count: the dates beside this one on which they fire."""
    before, after = everything.last_before(start), everything.next_after(start - 1)
    if spec.kind is TriggerKind.ONCE:
        at = before if before is not None else after
        return Reason(
            code="another_instant",
            template="It fires once only, at %(at)s.",
            params={"at": instant_to_iso(at or 0)},
        )
    dates = [
        None if at is None else str(date_of_day(local_day(at, zone))) for at in (before, after)
    ]
    match dates:
        case [None, later]:
            return Reason(
                code="before_first",
                template="It fires for the first time on %(date)s.",
                params={"date": later},
            )
        case [earlier, None]:
            return Reason(
                code="after_last",
                template="It fires for the last time on %(date)s.",
                params={"date": earlier},
            )
    return Reason(
        code="between_fires",
        template="By its interval it fires on %(earlier)s and then on %(later)s.",
        params={"earlier": dates[0], "later": dates[1]},
    )


def _by_clocks(spec: TriggerSpec) -> Reason:
    """The day counts, and yet no wall time of it does."""
    if spec.gap is Gap.SKIP:
        return Reason(
            code="gap_skipped",
            template="The clocks go forward over its times on this date, and it skips those.",
        )
    return Reason(
        code="clocks",
        template="The clocks change on this date, and none of its times is left.",
    )


def _follows_a_run(spec: TriggerSpec) -> Reason:
    return Reason(
        code="follows_run",
        template="It fires %(seconds)s seconds after each run ends; only its next fire is known.",
        params={"seconds": as_seconds(spec.every_ms or 0)},
    )
