"""Calendars of Quartz as ours: each takes fires away, as do those it is based on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.imports.foreign import ForeignCalendar, note_of_problem
from tickwheel_admin.domain.imports.names import shortened
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.imports.quartz.java_objects import DAMAGE, BadJavaStream, JavaObject
from tickwheel_admin.domain.imports.quartz.java_stream import read_java
from tickwheel_admin.domain.imports.quartz.java_values import NotPlain, items, millis, text
from tickwheel_admin.domain.imports.quartz.records import QuartzCalendar
from tickwheel_admin.domain.imports.quartz.time_zones import zone_name
from tickwheel_admin.domain.imports.quartz.triggers import CalendarZones
from tickwheel_admin.domain.input.calendar import MAX_DESCRIPTION_CHARS, parse_calendar
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, WEEKDAYS
from tickwheel_admin.domain.schedule.zones import zone_of

_PACKAGE = "org.quartz.impl.calendar."
_MONTH, _DAY = 2, 5  # places in the fields of a java.util.Calendar
_MAX_CHAIN = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True, kw_only=True)
class MappedCalendars:
    """All calendars, those that others are based on first, and what triggers need to know."""

    calendars: list[ForeignCalendar] = field(default_factory=list)
    zones: CalendarZones


class _NotCarried(Exception):
    """Why a calendar cannot be had."""

    def __init__(self, text: str) -> None:
        self.note = note("calendar", text)
        super().__init__(text)


def map_calendars(stored: Sequence[QuartzCalendar], jvm: str | None) -> MappedCalendars:
    """The calendars in our form.

    Args:
        jvm: zone of Quartz's JVM; None: not known.
    """
    zones: dict[str, frozenset[str]] = {}
    left_out: set[str] = set()
    found: list[ForeignCalendar] = []
    for each in stored:
        try:
            chain, in_zones = _chain(each, jvm)
        except _NotCarried as error:
            left_out.add(each.name)
            found.append(ForeignCalendar(name=each.name, reasons=(error.note,)))
        else:
            found += chain
            zones[each.name] = frozenset(in_zones)
    return MappedCalendars(
        calendars=found,
        zones=CalendarZones(jvm=jvm, zones=zones, left_out=frozenset(left_out)),
    )


def _chain(stored: QuartzCalendar, jvm: str | None) -> tuple[list[ForeignCalendar], set[str]]:
    """A calendar and those it is based on, which have no name of their own in Quartz."""
    try:
        value = read_java(stored.content)
        chain = list(_bases(value))
        zones = [_zone(each, jvm) for each in chain]
        raws = [_raw(each, zone) for each, zone in zip(chain, zones, strict=True)]
    except BadJavaStream as error:
        raise _NotCarried(str(error)) from None
    except ScheduleError as error:
        raise _NotCarried(str(error).rstrip(".")) from None
    except NotPlain as error:
        raise _NotCarried(f"it holds {shortened(str(error))}") from None
    except DAMAGE:
        raise _NotCarried("it is cut off or damaged") from None
    names = [stored.name]
    names += [f"{stored.name}-base" + (f"-{n}" if n > 1 else "") for n in range(1, len(chain))]
    made: list[ForeignCalendar] = []
    for place, (name, raw) in enumerate(zip(names, raws, strict=True)):
        base = names[place + 1] if place + 1 < len(names) else None
        notes: tuple[ImportNote, ...] = ()
        if place:
            notes = (note("base", f"the calendar that “{names[place - 1]}” is based on"),)
        full = {**raw, "name": name, "base": base}
        try:
            parse_calendar(full)
        except InvalidInput as error:
            raise _NotCarried(note_of_problem(error.problems[0]).text) from None
        made.append(ForeignCalendar(name=name, raw=full, notes=notes))
    used = {zone for each, zone in zip(chain, zones, strict=True) if zone and _has_days(each)}
    return made[::-1], used


def _bases(value: Any) -> Iterator[JavaObject]:
    for _ in range(_MAX_CHAIN):
        if value is None:
            return
        if not isinstance(value, JavaObject) or not value.class_name.startswith(_PACKAGE):
            name = getattr(value, "class_name", "something unknown")
            raise _NotCarried(f"it is of a class that there is not here: {shortened(name)}")
        yield value
        value = value.fields.get("baseCalendar")
    raise _NotCarried(f"it is based on more than {_MAX_CHAIN - 1} others")


def _zone(value: JavaObject, jvm: str | None) -> str | None:
    own = value.fields.get("timeZone")
    if value.class_name == f"{_PACKAGE}CronCalendar":
        own = value.fields["cronExpression"].fields.get("timeZone")
    if isinstance(own, JavaObject):
        return zone_name(text(own.fields["ID"]))
    if jvm is None and _has_days(value):
        why = "it is read in the time zone of Quartz's JVM: name it with --timezone"
        raise _NotCarried(why)
    return jvm


def _has_days(value: JavaObject) -> bool:
    return value.class_name != f"{_PACKAGE}BaseCalendar"


def _raw(value: JavaObject, zone: str | None) -> dict[str, Any]:
    fields = value.fields
    raw: dict[str, Any] = {"sense": "exclude"}
    if description := fields.get("description"):
        raw["description"] = text(description)[:MAX_DESCRIPTION_CHARS]
    match value.class_name.removeprefix(_PACKAGE):
        case "BaseCalendar":
            pass
        case "AnnualCalendar":
            days = [each.fields["fields"].items for each in items(fields["excludeDays"])]
            raw["yearly"] = [f"{each[_MONTH] + 1:02}-{each[_DAY]:02}" for each in days]
        case "HolidayCalendar":
            at = [millis(each) for each in items(fields["dates"])]
            raw["dates"] = [_date(each, zone or "UTC") for each in at]
        case "MonthlyCalendar":
            excluded = fields["excludeDays"].items
            raw["month_days"] = [day + 1 for day, gone in enumerate(excluded[:31]) if gone]
        case "WeeklyCalendar":
            excluded = fields["excludeDays"].items  # 1 is Sunday
            days = [day for day in range(1, 8) if excluded[day]]
            raw["weekdays"] = [WEEKDAYS[day] for day in sorted((day - 2) % 7 for day in days)]
        case "DailyCalendar":
            raw["windows"] = list(_windows(fields))
        case "CronCalendar":
            expression = fields["cronExpression"].fields
            raw["cron"] = [{"expression": text(expression["cronExpression"]), "dialect": "quartz"}]
        case other:
            raise _NotCarried(f"it is of a class that there is not here: {shortened(other)}")
    return raw


def _windows(fields: dict[str, Any]) -> Iterator[dict[str, str]]:
    """What a DailyCalendar takes away: a range with both ends, or all but that."""
    start = _seconds(fields, "Starting")
    end = _seconds(fields, "Ending") + 1
    if not fields["invertTimeRange"]:
        if start > 0:
            yield _window(0, 1)  # Quartz compares with “later than midnight”, so midnight goes too
        yield _window(start, end)
        return
    if start > 0:
        yield _window(0, start)
    if end < DAY_SECONDS:
        yield _window(end, DAY_SECONDS)


def _seconds(fields: dict[str, Any], which: str) -> int:
    hour = int(fields[f"range{which}HourOfDay"])
    return (
        hour * 3_600 + int(fields[f"range{which}Minute"]) * 60 + int(fields[f"range{which}Second"])
    )


def _window(start: int, end: int) -> dict[str, str]:
    return {"from_time": _time(start), "to_time": _time(end)}


def _time(seconds: int) -> str:
    return f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _date(at: int, zone: str) -> str:
    seconds = at // 1_000
    local = _EPOCH + timedelta(seconds=seconds + zone_of(zone).segment_at(seconds).offset)
    return f"{local:%Y-%m-%d}"
