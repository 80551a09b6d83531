"""Which wall times belong to a trigger, second by second within an hour."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from tickwheel_admin.domain.self_audit.cron_reading import (
    CronReading,
    UnreadableExpression,
    read_cron,
)
from tickwheel_admin.domain.triggers.kinds.calendar_interval import CalendarIntervalSpec
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec

DAY = 86_400
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WallTimes:
    """The wall times of a trigger by the clock."""

    hours: frozenset[int]  # in which there may be some
    covers_all_hours: bool  # nothing is made up for where the clocks skip
    overlap: str  # what `auto` means: first or both
    spec: TriggerSpec
    reading: CronReading | None = None

    def between(self, begin: int, end: int) -> Iterator[int]:
        """Those from `begin` to before `end`, in wall seconds since 1970, ascending."""
        for day in range(begin // DAY, -(-end // DAY)):
            low, high = max(begin - day * DAY, 0), min(end - day * DAY, DAY)
            if any(hour in self.hours for hour in range(low // 3_600, -(-high // 3_600))):
                yield from (day * DAY + second for second in self._on(day, low, high))

    def _on(self, day: int, low: int, high: int) -> Iterator[int]:
        """The seconds of a day."""
        match self.spec:
            case CronSpec():
                assert self.reading is not None  # noqa: S101 - made together
                if has_day(self.reading, day):
                    yield from seconds_between(self.reading, low, high)
            case DailyWindowSpec(from_time=begin, to_time=end, every_ms=every, weekdays=weekdays):
                if not weekdays or (day + 3) % 7 + 1 in weekdays:  # 1970-01-01 was a Thursday
                    first, last = seconds_of(begin), seconds_of(end)
                    step = (every or 0) // 1_000
                    ahead = first if low <= first else first + -(-(low - first) // step) * step
                    yield from range(ahead, min(last + 1, high), step)
            case WindowSpec(weekdays=weekdays):
                later, second = divmod(_start_of(self.spec), DAY)  # days after the window began
                if low <= second < high and (not weekdays or (day - later + 3) % 7 + 1 in weekdays):
                    yield second
            case CalendarIntervalSpec(at_time=time):
                if low <= (second := seconds_of(time)) < high and _counts(self.spec, day):
                    yield second


@lru_cache(maxsize=8_192)
def wall_times(spec: TriggerSpec) -> WallTimes | None:
    """Of a kind that goes by the clock; None of any other.

    Raises:
        UnreadableExpression: it cannot be audited.
    """
    match spec:
        case CronSpec():
            reading = read_cron(spec.expression or "", spec.dialect or "unix")
            return WallTimes(
                hours=frozenset(reading.hours),
                covers_all_hours=len(reading.hours) == 24,
                overlap="both" if reading.is_interval else "first",
                spec=spec,
                reading=reading,
            )
        case DailyWindowSpec(from_time=begin, to_time=end, every_ms=every):
            if not every or every < 1_000:
                raise UnreadableExpression(str(every))
            step = every // 1_000
            hours = {at // 3_600 for at in range(seconds_of(begin), seconds_of(end) + 1, step)}
            return WallTimes(
                hours=frozenset(hours),
                covers_all_hours=len(hours) == 24,
                overlap="both",
                spec=spec,
            )
        case WindowSpec():
            hours = {_start_of(spec) % DAY // 3_600}
            return WallTimes(
                hours=frozenset(hours), covers_all_hours=False, overlap="first", spec=spec
            )
        case CalendarIntervalSpec(at_time=time):
            hours = {seconds_of(time) // 3_600}
            return WallTimes(
                hours=frozenset(hours), covers_all_hours=False, overlap="first", spec=spec
            )
    return None


def seconds_between(reading: CronReading, low: int, high: int) -> Iterator[int]:
    """Seconds of a matching day from `low` to before `high`."""
    for hour in reading.hours:
        if hour * 3_600 >= high or hour * 3_600 + 3_600 <= low:
            continue
        for minute in reading.minutes:
            begin = hour * 3_600 + minute * 60
            if begin + 60 > low and begin < high:
                for second in reading.seconds:
                    if low <= begin + second < high:
                        yield begin + second


def has_day(reading: CronReading, day: int) -> bool:
    """Whether a day, counted from 1970-01-01, matches."""
    found = _EPOCH + timedelta(days=day)
    length = monthrange(found.year, found.month)[1]
    weekday = found.isoweekday() % 7
    return reading.has_day(found.year, found.month, found.day, weekday=weekday, length=length)


def has_second(reading: CronReading, second: int) -> bool:
    """Whether a second of a matching day matches."""
    return (
        second // 3_600 in reading.hours
        and second // 60 % 60 in reading.minutes
        and second % 60 in reading.seconds
    )


def seconds_of(text: str | None) -> int:
    """A wall time such as 09:30 or 09:30:15 in seconds since midnight."""
    try:
        parts = [int(part) for part in (text or "").split(":")]
        return parts[0] * 3_600 + parts[1] * 60 + (parts[2] if len(parts) > 2 else 0)
    except (ValueError, IndexError):
        raise UnreadableExpression(str(text)) from None


def _start_of(spec: WindowSpec) -> int:
    """When it starts, in seconds from the midnight before its window begins."""
    begin = seconds_of(spec.from_time)
    if spec.placement is not None:
        return begin + spec.placement.offset * 60
    return begin + (seconds_of(spec.to_time) - begin) % DAY


def _counts(spec: CalendarIntervalSpec, day: int) -> bool:
    """Whether a day is one of those that are counted from the first one."""
    first = date.fromisoformat(spec.start_date or "")
    found, every = _EPOCH + timedelta(days=day), spec.every or 1
    if found < first or spec.unit is None:
        return False
    if spec.unit.value in ("day", "week"):
        return (found - first).days % (every * (7 if spec.unit.value == "week" else 1)) == 0
    months = (found.year - first.year) * 12 + found.month - first.month
    step = every * (12 if spec.unit.value == "year" else 1)
    # A month that is too short has its last day instead.
    return months % step == 0 and found.day == min(
        first.day, monthrange(found.year, found.month)[1]
    )
