"""Triggers of Quartz as ours.

Fires are those of Quartz 2.3 to 2.5, its behaviour when the clocks change included: cron skips what
the clocks skip, and fires in the second pass what they show twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tickwheel_admin.domain.fields import as_seconds, instant_to_iso, is_instant
from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.imports.quartz.java_objects import DAMAGE
from tickwheel_admin.domain.imports.quartz.job_data import read_job_data
from tickwheel_admin.domain.imports.quartz.records import QuartzTrigger, is_true
from tickwheel_admin.domain.imports.quartz.time_zones import zone_name
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.wall_clock import WEEKDAYS
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.triggers.kinds.lengths import MAX_EVERY_MS, MIN_EVERY_MS

_MISFIRE_SECONDS = 60  # org.quartz.jobStore.misfireThreshold, unless somebody changed it
_UNIT_MS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000}
_CALENDAR_UNITS = {"DAY": "day", "WEEK": "week", "MONTH": "month", "YEAR": "year"}
_LAST_DAY_OF_ALL = 28  # of every month
_FOR_EVER = -1
_SMART, _IGNORE = 0, -1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NotCarried(Exception):
    """Why a trigger cannot be had."""

    def __init__(self, code: str, text: str) -> None:
        self.note = note(code, text)
        super().__init__(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarZones:
    """What is known of the calendars, and of the JVM."""

    jvm: str | None  # zone of the JVM; None: not known
    zones: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by calendar: its zones
    left_out: frozenset[str] = frozenset()  # calendars that cannot be had


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTrigger:
    """A trigger in our form."""

    raw: Mapping[str, Any]
    is_paused: bool
    notes: tuple[ImportNote, ...]


def map_trigger(trigger: QuartzTrigger, known: CalendarZones) -> MappedTrigger | None:
    """The trigger in our form; None: it fires no more.

    Raises:
        NotCarried: there is nothing like it here.
    """
    if trigger.is_damaged:
        raise NotCarried("damaged", "a number in its row cannot be read")
    if trigger.next_fire_at is None or trigger.state == "COMPLETE":
        return None
    if trigger.calendar in known.left_out:
        raise NotCarried("calendar", f"its calendar “{trigger.calendar}” cannot be imported")
    notes: list[ImportNote] = []
    make = _KINDS.get(trigger.kind, _unknown)
    try:
        raw = make(trigger, known, notes)
        raw |= _shared(trigger, notes)
        _check_calendar(trigger, raw, known, notes)
    except ScheduleError as error:
        raise NotCarried("timezone", str(error).rstrip(".")) from None
    except DAMAGE:
        raise NotCarried("damaged", "the row of its kind is missing or cannot be read") from None
    if trigger.state == "ERROR":
        notes.append(note("state_error", "it is in state ERROR in Quartz and fires here"))
    return MappedTrigger(
        raw=raw,
        is_paused=trigger.state in ("PAUSED", "PAUSED_BLOCKED"),
        notes=tuple(note(n.code, f"trigger {trigger.label}: {n.text}") for n in notes),
    )


def _shared(trigger: QuartzTrigger, notes: list[ImportNote]) -> dict[str, Any]:
    raw: dict[str, Any] = {"misfire_threshold_seconds": _MISFIRE_SECONDS}
    if trigger.priority != 5:
        raw["priority"] = min(max(10 - trigger.priority, 1), 9)
    raw["misfire"] = _misfire(trigger, notes)
    data, left_out = read_job_data(trigger.data)
    notes += left_out
    if data:
        raw["parameters"] = data
    if trigger.calendar is not None:
        raw["calendar"] = trigger.calendar
    return raw


def _misfire(trigger: QuartzTrigger, notes: list[ImportNote]) -> str:
    code = trigger.misfire
    if code == _IGNORE:
        return "fire_all"
    if trigger.kind != "SIMPLE":
        return "skip" if code == 2 else "fire_once"
    count = int(trigger.own["repeat_count"])
    if code == _SMART:
        code = 1 if count == 0 else 4 if count == _FOR_EVER else 2
    if code in (4, 5):
        return "skip"
    if count != 0 and code in (2, 3):
        text = "after a misfire it keeps its rhythm here; in Quartz it begins anew from then on"
        notes.append(note("misfire_rhythm", text))
    return "fire_once"


def _check_calendar(
    trigger: QuartzTrigger,
    raw: dict[str, Any],
    known: CalendarZones,
    notes: list[ImportNote],
) -> None:
    """A calendar is read in the zone of the trigger here, in its own there."""
    if trigger.calendar is None:
        return
    zones = known.zones.get(trigger.calendar)
    if zones is None:
        raise NotCarried("calendar", f"its calendar “{trigger.calendar}” is gone from Quartz")
    raw.setdefault("timezone", min(zones, default="UTC"))
    if others := zones - {raw["timezone"]}:
        text = (
            f"its calendar “{trigger.calendar}” is read in {', '.join(sorted(others))} in Quartz,"
            f" here in {raw['timezone']}"
        )
        notes.append(note("calendar_zone", text))


# --- kinds ---------------------------------------------------------------------------------------


def _cron(trigger: QuartzTrigger, known: CalendarZones, notes: list[ImportNote]) -> dict[str, Any]:
    zone = trigger.own.get("time_zone_id")
    return {
        "kind": "cron",
        "expression": trigger.own["cron_expression"],
        "dialect": "quartz",
        "timezone": zone_name(zone) if zone else _jvm(known),
        "gap": "skip",
        "overlap": "second",
        "start_at": _start(trigger),
        "end_at": _iso(trigger.end_at),
    }


def _simple(
    trigger: QuartzTrigger, known: CalendarZones, notes: list[ImportNote]
) -> dict[str, Any]:
    count, every = int(trigger.own["repeat_count"]), int(trigger.own["repeat_interval"])
    if count == 0:
        return {"kind": "once", "at": _iso(trigger.next_fire_at)}
    # Its place on the grid decides how often it fires, not how often it has fired.
    last = None if count == _FOR_EVER else trigger.start_at + count * every
    return _rate(trigger, every, last=last)


def _rate(trigger: QuartzTrigger, every: int, *, last: int | None = None) -> dict[str, Any]:
    if not MIN_EVERY_MS <= every <= MAX_EVERY_MS:
        text = f"every {every:,} ms; here it is 100 ms to 366 days"
        raise NotCarried("interval", text)
    bounds = [last, None if trigger.end_at is None else trigger.end_at - 1]
    return {
        "kind": "fixed_rate",
        "every_seconds": as_seconds(every),
        "anchor_at": _iso(trigger.start_at),
        "end_at": _iso(min((each for each in bounds if each is not None), default=None)),
    }


def _calendar_interval(
    trigger: QuartzTrigger, known: CalendarZones, notes: list[ImportNote]
) -> dict[str, Any]:
    every, unit = int(trigger.own["int_prop_1"]), str(trigger.own["str_prop_1"])
    if unit in _UNIT_MS:
        return _rate(trigger, every * _UNIT_MS[unit])
    zone = trigger.own.get("str_prop_2")
    timezone = zone_name(zone) if zone else _jvm(known)
    first, upcoming = _local(trigger.start_at, timezone), _local(trigger.next_fire_at, timezone)
    if unit in ("MONTH", "YEAR") and first.day > _LAST_DAY_OF_ALL:
        # Quartz counts from the fire before, so that a short month changes the day for good.
        if upcoming.day > _LAST_DAY_OF_ALL:
            text = f"day {first.day} becomes the last one in a short month; in Quartz for good"
            notes.append(note("month_end", text))
        first = upcoming
    elif first.time() != upcoming.time():
        first = upcoming  # an hour that the clocks skipped has moved it for good
    part_of_second = trigger.start_at % 1_000
    if part_of_second:
        text = "it fires at whole seconds here"
        notes.append(note("whole_seconds", text))
    end_at = None if trigger.end_at is None else trigger.end_at - part_of_second - 1
    return {
        "kind": "calendar_interval",
        "every": every,
        "unit": _CALENDAR_UNITS[unit],
        "start_date": f"{first:%Y-%m-%d}",
        "at_time": f"{first:%H:%M:%S}",
        "timezone": timezone,
        "gap": "skip" if is_true(trigger.own.get("bool_prop_2")) else "fire",
        "overlap": "first",
        "end_at": _iso(end_at),
    }


def _daily(trigger: QuartzTrigger, known: CalendarZones, notes: list[ImportNote]) -> dict[str, Any]:
    unit, every = str(trigger.own["str_prop_1"]), int(trigger.own["int_prop_1"])
    parts = [int(each) for each in str(trigger.own["str_prop_3"]).split(",")]
    # 1 is Sunday.
    days = {(int(each) - 2) % 7 for each in str(trigger.own["str_prop_2"]).split(",") if each}
    raw = {
        "kind": "daily_window",
        "every_seconds": every * _UNIT_MS[unit] // 1_000,
        "from_time": "{:02}:{:02}:{:02}".format(*parts[:3]),
        "to_time": "{:02}:{:02}:{:02}".format(*parts[3:]),
        "weekdays": [WEEKDAYS[each] for each in sorted(days)],
        "timezone": _jvm(known),
        "start_at": _start(trigger),
        "end_at": _iso(trigger.end_at),
    }
    count = int(trigger.own["long_prop_1"])
    if count != _FOR_EVER:
        raw["repeat_count"] = max(count - int(trigger.own["int_prop_2"]) + 1, 1)
    return raw


def _unknown(
    trigger: QuartzTrigger, known: CalendarZones, notes: list[ImportNote]
) -> dict[str, Any]:
    kind = "a class that Quartz stores as an object" if trigger.kind == "BLOB" else trigger.kind
    raise NotCarried("kind", f"it is of a kind that there is not here: {kind}")


_KINDS: Mapping[str, Callable[[QuartzTrigger, CalendarZones, list[ImportNote]], dict[str, Any]]] = {
    "CRON": _cron,
    "SIMPLE": _simple,
    "CAL_INT": _calendar_interval,
    "DAILY_I": _daily,
}


# --- helpers -------------------------------------------------------------------------------------


def _jvm(known: CalendarZones) -> str:
    if known.jvm is None:
        text = "it is read in the time zone of Quartz's JVM: name it with --timezone"
        raise NotCarried("timezone", text)
    return known.jvm


def _start(trigger: QuartzTrigger) -> str | None:
    return _iso(trigger.start_at // 1_000 * 1_000)


def _iso(at: int | None) -> str | None:
    if at is None or at == 0:
        return None
    if not is_instant(at):
        raise NotCarried("instant", "an instant of it is out of range")
    return instant_to_iso(at)


def _local(at: int | None, timezone: str) -> datetime:
    seconds = (at or 0) // 1_000
    offset = zone_of(timezone).segment_at(seconds).offset
    return _EPOCH + timedelta(seconds=seconds + offset)
