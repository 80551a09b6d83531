"""Records of a spool segment: each has its length and checksum, and is found after damage."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

_FAMILY = b"TWR"  # what records of all versions begin with; a character for the version follows
VERSION = "1"
_MAGIC = _FAMILY + VERSION.encode()
_HEADER = struct.Struct("<4sII")  # magic, length of the payload, its CRC-32


@dataclass(slots=True)
class SegmentContents:
    """What is in a segment."""

    payloads: list[bytes] = field(default_factory=list)  # of all whole records
    damaged_bytes: int = 0  # between whole records: they were whole once
    torn_bytes: int = 0  # after the last whole record: most likely never whole
    other_versions: set[str] = field(default_factory=set)  # of records that are not read here


def pack(payload: bytes) -> bytes:
    """One record."""
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def unpack(data: bytes) -> SegmentContents:
    """All whole records; after damage, search for the next one that is whole."""
    found = SegmentContents()
    read_to = position = 0
    while (position := data.find(_FAMILY, position)) >= 0:
        payload = _payload_at(data, position)
        if payload is None:
            version = data[position + len(_FAMILY) : position + len(_MAGIC)].decode("latin-1")
            if version.isalnum() and version.isascii() and version != VERSION:
                found.other_versions.add(version)
            position += 1
            continue
        found.damaged_bytes += position - read_to
        found.payloads.append(payload)
        read_to = position = position + _HEADER.size + len(payload)
    # Zeros are what a crash of the machine leaves of an append, or a test whether there is room.
    found.torn_bytes = len(data[read_to:].rstrip(b"\0"))
    return found


def _payload_at(data: bytes, position: int) -> bytes | None:
    if position + _HEADER.size > len(data):
        return None
    magic, length, checksum = _HEADER.unpack_from(data, position)
    start = position + _HEADER.size
    if magic != _MAGIC or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if zlib.crc32(payload) == checksum else None
