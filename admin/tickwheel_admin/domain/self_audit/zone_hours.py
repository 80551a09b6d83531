"""What the clocks of a zone show during an hour, by the zones of the standard library.

They read the data of the `tzdata` package and not the machine's, as planning does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall times have no zone
_NEAR_SECONDS = 26 * 3_600  # a change of the clocks further away repeats no wall time


@dataclass(frozen=True, slots=True)
class Shown:
    """A time of one offset: what is shown from `begin` to before `end`, UTC seconds."""

    begin: int
    end: int
    offset: int
    # Wall seconds, exclusive at the end, that the clocks skipped just before `begin`.
    skipped: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class ZoneHours:
    """A stretch of time in a zone."""

    zone: ZoneInfo
    parts: tuple[Shown, ...]
    near_change: bool  # some of its wall times may be shown twice

    def pass_of(self, wall: int, offset: int) -> int:
        """1 or 2 of a wall second that is shown twice, else 0.

        Args:
            wall: as it is shown with this offset.
        """
        if not self.near_change:
            return 0
        shown = EPOCH + timedelta(seconds=wall)
        first, second = (_offset_at(shown.replace(tzinfo=self.zone, fold=fold)) for fold in (0, 1))
        if first <= second:
            return 0
        return 1 if offset == first else 2


@lru_cache(maxsize=512)
def zone_hours(name: str, begin: int, end: int) -> ZoneHours:
    """What is shown from `begin` to before `end`, UTC seconds; at most some hours."""
    zone = _zone(name)
    parts = []
    at, before = begin, _offset(zone, begin - 1)
    while at < end:
        offset = _offset(zone, at)
        until = end if _offset(zone, end - 1) == offset else _change(zone, at, end - 1)
        skipped = (at + before, at + offset) if offset > before else None
        parts.append(Shown(at, until, offset, skipped))
        at, before = until, offset
    around = {_offset(zone, at) for at in (begin - _NEAR_SECONDS, begin, end, end + _NEAR_SECONDS)}
    return ZoneHours(zone, tuple(parts), len(around) > 1 or len(parts) > 1)


def wall_second(name: str, at: int) -> int:
    """What the clocks of a zone show at an instant, in seconds; `at` in UTC seconds."""
    return at + _offset(_zone(name), at)


@cache
def _zone(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def _change(zone: ZoneInfo, low: int, high: int) -> int:
    """The first second whose offset is another than at `low`; at `high` it is."""
    offset = _offset(zone, low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset(zone, middle) == offset else (low, middle)
    return high


def _offset(zone: ZoneInfo, at: int) -> int:
    return _offset_at(datetime.fromtimestamp(at, UTC).astimezone(zone))


def _offset_at(moment: datetime) -> int:
    offset = moment.utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
