"""Records of a spool segment, with length and checksum, so that reading survives damage."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

_FAMILY = b"TWR"  # prefix of records of all versions; one character for the version follows
VERSION = "1"
_MAGIC = _FAMILY + VERSION.encode()
_HEADER = struct.Struct("<4sII")  # magic, length of the payload, its CRC-32


@dataclass(slots=True)
class SegmentContents:
    """Contents of a segment."""

    payloads: list[bytes] = field(default_factory=list)  # of all intact records
    damaged_bytes: int = 0  # between intact records: damaged later
    torn_bytes: int = 0  # after the last intact record: an incomplete write
    other_versions: set[str] = field(default_factory=set)  # of records in other formats


def pack(payload: bytes) -> bytes:
    """One record as bytes."""
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def unpack(data: bytes) -> SegmentContents:
    """All intact records; after damage, search for the next intact one."""
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
    # Zeros are left by a crash during an append, or by a test for free space.
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
