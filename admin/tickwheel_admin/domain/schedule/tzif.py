"""Reads time zones from the `tzdata` package: offsets from UTC and the instants they change at."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from io import BytesIO
from zoneinfo import ZoneInfo

_HEADER = struct.Struct(">4s c 15x 6I")  # RFC 9636, section 3.1
_WEEK = 7 * 86_400
_EARLIEST = -86_400 * 366  # 1969: rules without a first change are not followed further back


@cache
def zone_names() -> frozenset[str]:
    """Every name that the package knows, with the links such as Asia/Chongqing."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


@dataclass(frozen=True, slots=True)
class ZoneData:
    """What a zone's file says."""

    changes: tuple[tuple[int, int], ...]  # UTC second and the offset in seconds from then on
    first_offset: int  # before the first change
    rule: ZoneInfo | None  # decides after the last change; None: its offset stays for good

    def later_change(self, start: int, offset: int, end: int) -> tuple[int, int] | None:
        """The first change by the rule after `start`, where `offset` holds, and before `end`.

        A rule has two changes a year at most, and no zone goes back within a week: looking at one
        instant a week finds every change.
        """
        if self.rule is None:
            return None
        before = max(start, _EARLIEST)
        while before < end:
            after = before + _WEEK
            if _offset(self.rule, after) != offset:
                break
            before = after
        else:
            return None
        while after - before > 1:
            middle = (before + after) // 2
            if _offset(self.rule, middle) == offset:
                before = middle
            else:
                after = middle
        return after, _offset(self.rule, after)


def read(name: str) -> ZoneData:
    """The zone of one of the `zone_names`."""
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    old = _HEADER.unpack_from(data)
    # Behind the block with times of four bytes comes the same one with times of eight.
    block = _HEADER.size + _length(old, time_size=4)
    _magic, _version, _isut, _isstd, _leap, times, types, _chars = header = _HEADER.unpack_from(
        data, block
    )
    body = block + _HEADER.size
    instants = struct.unpack_from(f">{times}q", data, body)
    kinds = data[body + 8 * times : body + 9 * times]
    first_type = body + 9 * times
    offsets = [struct.unpack_from(">i", data, first_type + 6 * kind)[0] for kind in range(types)]
    changes: list[tuple[int, int]] = []
    before = offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != before:  # else only the zone's abbreviation changes
            before = offsets[kind]
            changes.append((instant, before))
    footer = data[body + _length(header, time_size=8) :]
    rule = ZoneInfo.from_file(BytesIO(data), key=name) if b"," in footer else None
    return ZoneData(tuple(changes), offsets[0], rule)


def _length(header: tuple[int, ...], *, time_size: int) -> int:
    _magic, _version, isut, isstd, leap, times, types, chars = header
    return times * (time_size + 1) + types * 6 + chars + leap * (time_size + 4) + isstd + isut


def _offset(zone: ZoneInfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None  # noqa: S101  a ZoneInfo always knows
    return int(offset.total_seconds())
