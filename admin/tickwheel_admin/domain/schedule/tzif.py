"""Reads time zones from the `tzdata` package: offsets from UTC and the instants they change at."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tickwheel_admin.domain.schedule.posix_rule import Change, PosixRule

_HEADER = struct.Struct(">4s c 15x 6I")  # RFC 9636, section 3.1


@cache
def zone_names() -> frozenset[str]:
    """Every name that the package knows, with the links such as Asia/Chongqing."""
    return frozenset(files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


@dataclass(frozen=True, slots=True)
class ZoneData:
    """What a zone's file says."""

    changes: tuple[Change, ...]  # those that it lists
    first_offset: int  # before the first of them, seconds
    rule: PosixRule | None  # decides later; None: the last offset stays for good
    rule_from: int  # after this UTC second; clocks may just have got another name there


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
    changes: list[Change] = []
    before = offsets[0]
    for instant, kind in zip(instants, kinds, strict=True):
        if offsets[kind] != before:  # else only the zone's abbreviation changes
            before = offsets[kind]
            changes.append(Change(instant, before))
    footer = data[body + _length(header, time_size=8) :]
    rule = PosixRule.read(footer.decode("ascii").strip())
    return ZoneData(tuple(changes), offsets[0], rule, instants[-1] if instants else 0)


def _length(header: tuple[int, ...], *, time_size: int) -> int:
    _magic, _version, isut, isstd, leap, times, types, chars = header
    return times * (time_size + 1) + types * 6 + chars + leap * (time_size + 4) + isstd + isut
