"""When triggers fire, by the definition of their kind and second by second: slow and independent.

Only the shapes that the workload makes are understood. Zones are the standard library's, so that
nothing here is computed by the engine that is to be judged.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from tickwheel_admin.domain.calendars.calendar import CalendarSense, CalendarSpec
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.triggers.kinds.calendar_interval import CalendarIntervalSpec
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.daily_window import DailyWindowSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.kinds.once import OnceSpec
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec, WallTimeSpec

BLOCK_SECONDS = 600
_SIZES = (60, 60, 24)  # of second, minute and hour


class Instants:
    """The instants of one trigger, as far as they were asked for."""

    def __init__(
        self, spec: TriggerSpec, *, created_at: int, calendar: CalendarSpec | None
    ) -> None:
        self._spec = spec
        anchor_at = spec.anchor_at if isinstance(spec, FixedRateSpec) else None
        start_at = created_at if spec.start_at is None else spec.start_at
        self._anchor = start_at if anchor_at is None else anchor_at
        self._calendar = calendar
        self._zone = ZoneInfo(spec.timezone or "UTC")
        self._wall = _WallTimes(spec)
        self._blocks: dict[int, list[int]] = {}

    def between(self, after: int, until: int) -> list[int]:
        """The instants in (after, until], UTC epoch ms."""
        spec = self._spec
        after = after if spec.start_at is None else max(after, spec.start_at - 1)
        until = until if spec.end_at is None else min(until, spec.end_at)
        match spec:
            case FixedDelaySpec():
                return []
            case OnceSpec():
                found: Sequence[int] = [spec.at] if spec.at and after < spec.at <= until else []
            case FixedRateSpec():
                assert spec.every_ms is not None
                anchor, every = self._anchor, spec.every_ms
                first = max(anchor, anchor + ((after - anchor) // every + 1) * every)
                found = range(first, until + 1, every)
            case _:
                assert isinstance(spec, WallTimeSpec)
                found = list(self._walked(spec, after, until))
        return [at for at in found if self._stays(at)]

    def _walked(self, spec: WallTimeSpec, after: int, until: int) -> Iterator[int]:
        size = BLOCK_SECONDS * 1000
        for number in range(after // size, until // size + 1):
            block = self._blocks.get(number)
            if block is None:
                block = self._blocks[number] = list(self._walk(spec, number * BLOCK_SECONDS))
            yield from block[bisect_right(block, after) : bisect_right(block, until)]

    def _walk(self, spec: WallTimeSpec, begin: int) -> Iterator[int]:
        """Every second of a block, as the clock on the wall shows it."""
        before = _local(begin - 1, self._zone)
        for second in range(begin, begin + BLOCK_SECONDS):
            now = _local(second, self._zone)
            first_pass = _first_pass(now, self._zone)
            fires = self._wall.has(now) and self._in_this_pass(spec, first_pass)
            skipped = now.replace(tzinfo=None) - before.replace(tzinfo=None) - timedelta(seconds=1)
            if skipped > timedelta(0) and spec.gap is Gap.FIRE and not self._wall.every_hour:
                missing = range(1, int(skipped.total_seconds()) + 1)
                fires = fires or any(self._wall.has(before + timedelta(seconds=n)) for n in missing)
            if fires:
                yield second * 1000
            before = now

    def _in_this_pass(self, spec: WallTimeSpec, first_pass: bool | None) -> bool:
        match spec.overlap:
            case _ if first_pass is None:
                return True
            case Overlap.BOTH:
                return True
            case Overlap.FIRST:
                return first_pass
            case Overlap.SECOND:
                return not first_pass
            case Overlap.AUTO:
                return first_pass or self._wall.is_interval

    def _stays(self, at: int) -> bool:
        if self._calendar is None:
            return True
        second = _second_of_day(_local(at // 1000, self._zone))
        inside = any(
            _seconds(window.from_time) <= second < _seconds(window.to_time)
            for window in self._calendar.windows
        )
        return inside is (self._calendar.sense is CalendarSense.INCLUDE)


class _WallTimes:
    """Which wall times belong to a trigger."""

    def __init__(self, spec: TriggerSpec) -> None:
        self._spec = spec
        self.every_hour = False
        self.is_interval = isinstance(spec, DailyWindowSpec)
        if isinstance(spec, CronSpec):
            fields = (spec.expression or "").split()[: 3 if spec.dialect != Dialect.UNIX else 2]
            if spec.dialect in (None, Dialect.UNIX):
                fields = ["0", *fields[:2]]
            self._fields = [_values(text, size) for text, size in zip(fields, _SIZES, strict=True)]
            self.every_hour = len(self._fields[2]) == 24
            self.is_interval = any(set("*-/") & set(text) for text in fields)

    def has(self, wall: datetime) -> bool:
        spec = self._spec
        match spec:
            case CronSpec():
                parts = (wall.second, wall.minute, wall.hour)
                return all(part in field for part, field in zip(parts, self._fields, strict=True))
            case DailyWindowSpec():
                since = _second_of_day(wall) - _seconds(spec.from_time or "")
                return (
                    since >= 0
                    and _second_of_day(wall) <= _seconds(spec.to_time or "")
                    and since % ((spec.every_ms or 0) // 1000) == 0
                    and (not spec.weekdays or wall.isoweekday() in spec.weekdays)
                )
            case WindowSpec():
                # Nothing is measured within the hour before a fire, and so it comes at the end.
                return _second_of_day(wall) == _seconds(spec.to_time or "")
            case CalendarIntervalSpec():
                days = (wall.date() - date.fromisoformat(spec.start_date or "")).days
                return (
                    days >= 0
                    and days % (spec.every or 1) == 0
                    and _second_of_day(wall) == _seconds(spec.at_time or "")
                )
        raise AssertionError(spec.kind)


def _values(text: str, size: int) -> frozenset[int]:
    """What a cron field of the workload means: `*`, `*/n`, or a list."""
    if text[0] == "*":
        return frozenset(range(0, size, int(text[2:] or "1")))
    return frozenset(map(int, text.split(",")))


def _local(second: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(second, UTC).astimezone(zone)


def _first_pass(local: datetime, zone: ZoneInfo) -> bool | None:
    """Whether a wall time that happens twice happens for the first time; None: it happens once."""
    wall = local.replace(tzinfo=None)
    first, second = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    if first == second or first is None or second is None or first < second:
        return None
    return local.fold == 0


def _second_of_day(wall: datetime) -> int:
    return wall.hour * 3600 + wall.minute * 60 + wall.second


def _seconds(text: str) -> int:
    hour, minute, second = (int(part) for part in (text + ":00")[:8].split(":"))
    return hour * 3600 + minute * 60 + second
