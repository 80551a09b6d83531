"""Events of an iCalendar file (RFC 5545) as days.

An event covers every day that it touches, in the zone in which it is written. Recurring ones are
expanded within bounds; single instances that were moved or called off count as they are now.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any

from dateutil.rrule import rrulestr
from icalendar import Calendar

from tickwheel_admin.domain.errors import InvalidInput

MAX_RECURRING = 500
MAX_INSTANCES = 20_000  # of one event
MAX_EVENT_DAYS = 366
FIRST_START_YEAR = 1900  # recurring events that begin earlier are not walked through
MAX_BARREN = 3  # recurring events without any instance: to find that out takes a second each
_OFTEN = frozenset({"HOURLY", "MINUTELY", "SECONDLY"})
# A zone changes its clocks a few times a year. The library expands its rules for decades before
# anything is asked of the zone, so one of every second would take all the time there is.
_OF_ZONES = frozenset({"YEARLY", "MONTHLY"})
_BY_TIME = re.compile(r";BY(?:HOUR|MINUTE|SECOND)=")
_FREQUENCY = re.compile(r"(?:^|[:;])FREQ=([A-Z]+)")
_OF_DAYS = frozenset(
    {"FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYMONTHDAY", "BYDAY"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDays:
    """The days that an event covers."""

    name: str
    days: tuple[date, ...]
    cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableEvent:
    """Why an event gave no days."""

    template: str
    params: dict[str, Any] = field(default_factory=dict)


def refuse_frequent_zone_rules(text: str) -> None:
    """Raise InvalidInput (import.zone_rule) for a time zone whose clocks change every few days."""
    inside = False
    for number, line in _unfolded(text):
        upper = line.strip().upper()
        if upper == "BEGIN:VTIMEZONE":
            inside = True
        elif upper == "END:VTIMEZONE":
            inside = False
        elif inside and upper.startswith(("RRULE:", "RRULE;")):
            found = _FREQUENCY.findall(upper)
            if len(found) == 1 and found[0] in _OF_ZONES and not _BY_TIME.search(upper):
                continue
            raise InvalidInput.one(
                "content",
                "import.zone_rule",
                "Line %(line)d: a time zone (VTIMEZONE) changes its clocks by “%(rule)s”. Only"
                " yearly and monthly rules without BYHOUR, BYMINUTE and BYSECOND are read.",
                line=number,
                rule=line.strip()[:100],
            )


def _unfolded(text: str) -> Iterator[tuple[int, str]]:
    """Content lines with their continuations (RFC 5545, 3.1), each with its first line's number."""
    first, parts = 1, [""]
    for number, line in enumerate(text.splitlines(), start=1):
        if line[:1] in (" ", "\t"):
            parts.append(line[1:])
            continue
        yield first, "".join(parts)
        first, parts = number, [line]
    yield first, "".join(parts)


def days_of_events(
    text: str, *, first: date, last: date, at: Callable[[str], None] = lambda _place: None
) -> Iterator[EventDays | UnreadableEvent]:
    """The events of a file in its order, with their days from `first` to `last`.

    Args:
        at: told the rule that is expanded next.

    Raises:
        ValueError: this is not an iCalendar file.
    """
    events = [event for each in Calendar.from_ical(text, multiple=True) for event in each.walk()]
    events = [event for event in events if event.name == "VEVENT"]
    replaced = _replaced_instances(events)
    recurring = barren = 0
    for event in events:
        recurring += "RRULE" in event
        if "RRULE" in event and (recurring > MAX_RECURRING or barren >= MAX_BARREN):
            yield UnreadableEvent(
                template="Only the first %(limit)d recurring events of a file are read.",
                params={"limit": recurring - 1},
            )
            continue
        if "RRULE" in event:
            at(_rule_text(event))
        found: EventDays | UnreadableEvent
        try:
            found = _days_of(event, replaced, first=first, last=last)
        except Exception as error:  # noqa: BLE001 - whatever the library stumbles over
            found = UnreadableEvent(
                template="This event is not understood: %(problem)s.",
                params={"problem": str(error)[:100]},
            )
        barren += "RRULE" in event and isinstance(found, EventDays) and not found.days
        yield found


def _rule_text(event: Any) -> str:
    """An event's rule as its file has it, for people."""
    rule = event["RRULE"]
    return "RRULE:" + ("…" if isinstance(rule, list) else rule.to_ical().decode(errors="replace"))


def _replaced_instances(events: list[Any]) -> dict[str, set[date]]:
    """By event, the instances that have an event of their own, or were called off."""
    replaced: defaultdict[str, set[date]] = defaultdict(set)
    for event in events:
        if (at := _instant_of(event, "RECURRENCE-ID")) is not None:
            replaced[str(event.get("UID", ""))].add(_day(at))
    return replaced


def _days_of(
    event: Any, replaced: dict[str, set[date]], *, first: date, last: date
) -> EventDays | UnreadableEvent:
    name = str(event.get("SUMMARY", ""))
    if str(event.get("STATUS", "")).upper() == "CANCELLED":
        return EventDays(name=name, days=(), cancelled=True)
    begin = _instant_of(event, "DTSTART")
    if begin is None:
        return UnreadableEvent(template="This event has no readable start (DTSTART).")
    length = _length_in_days(event, begin)
    if not 1 <= length <= MAX_EVENT_DAYS:
        return UnreadableEvent(
            template="This event ends before it begins, or is longer than %(limit)d days.",
            params={"limit": MAX_EVENT_DAYS},
        )
    starts = {_day(begin)}
    if "RRULE" in event:
        rule = event["RRULE"]
        if isinstance(rule, list):
            return UnreadableEvent(template="This event has more than one recurrence rule (RRULE).")
        if _OFTEN.intersection(str(each).upper() for each in rule.get("FREQ", [])):
            return UnreadableEvent(template="This event recurs within a day, so it names no days.")
        if _day(begin).year < FIRST_START_YEAR:
            return UnreadableEvent(
                template="Recurring events that begin before %(year)d are not read.",
                params={"year": FIRST_START_YEAR},
            )
        if not _is_possible(rule):
            return UnreadableEvent(template="Its recurrence rule matches no day.")
        starts = set(_expanded(rule, begin, last=last))
    starts |= set(_listed(event, "RDATE"))
    if event.get("RECURRENCE-ID") is None:
        starts -= set(_listed(event, "EXDATE"))
        if "RRULE" in event or "RDATE" in event:
            starts -= replaced.get(str(event.get("UID", "")), set())
    days = {start + timedelta(days=offset) for start in starts for offset in range(length)}
    return EventDays(name=name, days=tuple(sorted(day for day in days if first <= day <= last)))


def _expanded(rule: Any, begin: date, *, last: date) -> Iterator[date]:
    """The instances' days up to `last`; in wall time, so that no zone moves them."""
    start = datetime(begin.year, begin.month, begin.day)  # noqa: DTZ001 - wall time
    if isinstance(begin, datetime):
        start = begin.replace(tzinfo=None)
    ends = min([last, *(_day(value) for value in rule.get("UNTIL", []))])
    parts = {name: values for name, values in rule.items() if name != "UNTIL"}
    for at in islice(rrulestr(type(rule)(parts).to_ical().decode(), dtstart=start), MAX_INSTANCES):
        if at.date() > ends:
            return
        yield at.date()


def _is_possible(rule: Any) -> bool:
    """Whether the library would find an instance, and not look for one until the year 9999.

    What no calendar of holidays needs counts as impossible as well.
    """
    frequency = {str(each).upper() for each in rule.get("FREQ", [])}
    if frequency == {"DAILY"} and not _OF_DAYS.issuperset(name.upper() for name in rule):
        return False
    months = [int(month) for month in rule.get("BYMONTH", [])] or list(range(1, 13))
    days = [int(day) for day in rule.get("BYMONTHDAY", [])]
    return not days or any(
        abs(day) <= monthrange(2000, month)[1]
        for month in months
        if 1 <= month <= 12
        for day in days
    )


def _listed(event: Any, name: str) -> Iterator[date]:
    """Days of RDATE or EXDATE, which may stand once, several times or not at all."""
    lists = event.get(name, [])
    for each in lists if isinstance(lists, list) else [lists]:
        for entry in getattr(each, "dts", []):
            at = entry.dt
            yield _day(at[0] if isinstance(at, tuple) else at)  # a period counts by its start


def _instant_of(event: Any, name: str) -> Any:
    """The date or instant of a property; None when it is missing or broken."""
    try:
        return getattr(event.get(name), "dt", None)
    except ValueError:  # as the library tells of a broken one
        return None


def _length_in_days(event: Any, begin: date) -> int:
    """How many days an instance touches; DTEND is the first day, or instant, no longer in it."""
    end, lasts = _instant_of(event, "DTEND"), _instant_of(event, "DURATION")
    if end is None and isinstance(lasts, timedelta):
        end = begin + lasts
    if end is None:
        return 1
    if isinstance(end, datetime) and isinstance(begin, datetime):
        if end == begin:
            return 1
        if end.tzinfo is not None and begin.tzinfo is not None:
            end = end.astimezone(begin.tzinfo)
        touches_last_day = (end.hour, end.minute, end.second) != (0, 0, 0)
        return (_day(end) - _day(begin)).days + touches_last_day
    return max((_day(end) - _day(begin)).days, 1 if _day(end) == _day(begin) else 0)


def _day(at: date) -> date:
    return at.date() if isinstance(at, datetime) else at
