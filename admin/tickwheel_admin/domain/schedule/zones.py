"""Time zones as tables of segments with a constant offset, in integer seconds.

A *local second* is what the clocks on the wall show: seconds since 1970-01-01 00:00 of the wall
time. The data are those of the `tzdata` package and not the machine's, so that all admins agree.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import date, timedelta
from functools import cache
from threading import Lock
from typing import NamedTuple

import tzdata  # type: ignore[import-untyped]  # it has no types

from tickwheel_admin.domain.schedule import tzif
from tickwheel_admin.domain.schedule.base import ScheduleError

TZDATA_VERSION: str = tzdata.IANA_VERSION  # "2025b"
FOREVER = 1 << 60  # later than every instant of this package, in seconds

_MOST = 16 * 3_600  # no clock was ever further from UTC, in seconds
_EPOCH = date(1970, 1, 1)
_LAST_YEAR = 2201  # nothing is computed beyond
_YEARS_AHEAD = 8  # tables grow by so many years at once


class Segment(NamedTuple):
    """A time between two transitions of a zone, in UTC seconds."""

    start: int
    end: int  # exclusive
    offset: int  # seconds to be added to UTC to get local seconds
    before: int  # offset of the segment before; the same in the first one
    after: int  # offset of the segment after; the same in the last one
    number: int  # its place in the table


class Transition(NamedTuple):
    """Clocks going forward (after > before) or back."""

    at: int  # UTC second, the first one with the new offset
    before: int  # offsets, seconds
    after: int


class _Table(NamedTuple):
    """The segments known so far; replaced as a whole, so that threads need no lock to read."""

    starts: tuple[int, ...]
    segments: tuple[Segment, ...]
    end: int  # the end of the last one; the segment that starts here has these offsets
    offset: int
    before: int


class Zone:
    """A time zone; made by `zone_of`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._data = tzif.read(name)
        self._growing = Lock()
        self._table = self._first_table()

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def to_local(self, utc_seconds: int) -> tuple[int, int]:
        """Local seconds at an instant, and the offset there."""
        offset = self.segment_at(utc_seconds).offset
        return utc_seconds + offset, offset

    def instants_of(self, local_seconds: int) -> tuple[int, ...]:
        """UTC seconds at which clocks show a local second, ascending.

        One usually, none when clocks jump over it, two when they show it again.
        """
        segment = self.segment_at(local_seconds - _MOST)
        found = []
        while segment.start <= local_seconds + _MOST:
            instant = local_seconds - segment.offset
            if segment.start <= instant < segment.end:
                found.append(instant)
            if segment.end == FOREVER:
                break
            segment = self.segment(segment.number + 1)
        return tuple(found)

    def gap_end(self, local_seconds: int) -> int | None:
        """UTC second of the first instant after the gap that swallows a local second.

        None when clocks do show that local second.
        """
        for at, before, after in self.transitions_between(
            local_seconds - _MOST, local_seconds + _MOST
        ):
            if at + before <= local_seconds < at + after:
                return at
        return None

    def transitions_between(self, start: int, end: int) -> tuple[Transition, ...]:
        """Those with start <= at < end, UTC seconds, ascending."""
        segment = self.segment_at(start)
        found = []
        if segment.start == start and segment.offset != segment.before:
            found.append(Transition(start, segment.before, segment.offset))
        while segment.end < end:
            found.append(Transition(segment.end, segment.offset, segment.after))
            segment = self.segment(segment.number + 1)
        return tuple(found)

    def segment_at(self, utc_seconds: int) -> Segment:
        table = self._table
        if utc_seconds >= table.end:
            table = self._grown(until=utc_seconds)
        return table.segments[bisect_right(table.starts, utc_seconds) - 1]

    def segment(self, number: int) -> Segment:
        """By its `number`, which is not behind the segment that lasts for good."""
        table = self._table
        if number >= len(table.segments):
            table = self._grown(until=table.end)
        return table.segments[number]

    def _first_table(self) -> _Table:
        start, offset, before = -FOREVER, self._data.first_offset, self._data.first_offset
        segments: list[Segment] = []
        for at, after in self._data.changes:
            segments.append(Segment(start, at, offset, before, after, len(segments)))
            start, offset, before = at, after, offset
        return _as_table(segments, start, offset, before)

    def _grown(self, *, until: int) -> _Table:
        """The table with all segments that start up to an instant, and one more at least."""
        rule = self._data.rule
        with self._growing:
            _starts, known, start, offset, before = table = self._table
            if until < start or start == FOREVER:
                return table  # another thread was faster, or there is nothing more
            segments = list(known)
            last_year = _LAST_YEAR
            if rule is not None:
                known_until = max(start, self._data.rule_from)
                last_year = min(_year(max(until, known_until)) + _YEARS_AHEAD, _LAST_YEAR)
                for year in range(_year(known_until), last_year + 1):
                    for at, after in rule.changes(year):
                        if at > known_until and after != offset:
                            segments.append(
                                Segment(start, at, offset, before, after, len(segments))
                            )
                            start, offset, before = at, after, offset
            if last_year == _LAST_YEAR:
                segments.append(Segment(start, FOREVER, offset, before, offset, len(segments)))
                start = FOREVER
            self._table = table = _as_table(segments, start, offset, before)
            return table


@cache
def _zone(name: str) -> Zone:
    return Zone(name)


def zone_of(name: str | None) -> Zone:
    """The zone of an IANA name; UTC for None.

    Raises:
        ScheduleError: there is no such zone; a similar name is suggested where there is one.
    """
    if name is None:
        return _zone("UTC")
    if name in tzif.zone_names():
        return _zone(name)
    raise _unknown(name)


def _unknown(name: str) -> ScheduleError:
    wanted = "_".join(name.casefold().split())
    for known in sorted(tzif.zone_names(), key=lambda known: (known.count("/"), known)):
        folded = known.casefold()
        if wanted in (folded, folded.rpartition("/")[2]):
            return ScheduleError(
                "timezone",
                "“%(name)s” is not a time zone; did you mean %(suggestion)s?",
                name=name,
                suggestion=known,
            )
    return ScheduleError(
        "timezone",
        "“%(name)s” is not a time zone; use an IANA name such as Europe/Berlin.",
        name=name,
    )


def _as_table(segments: list[Segment], start: int, offset: int, before: int) -> _Table:
    return _Table(tuple(each.start for each in segments), tuple(segments), start, offset, before)


def _year(utc_seconds: int) -> int:
    """From 1970, where rules begin to be followed, to the last year."""
    if utc_seconds < 0:
        return 1970
    days = min(utc_seconds // 86_400, (_LAST_YEAR - 1970) * 366)
    return min((_EPOCH + timedelta(days=days)).year, _LAST_YEAR)
