"""Records of a spool segment: each has its length and checksum, and is found after damage."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

_MAGIC = b"TWR1"
_HEADER = struct.Struct("<4sII")  # magic, length of the payload, its CRC-32


def pack(payload: bytes) -> bytes:
    """One record."""
    return _HEADER.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def unpack(data: bytes) -> Iterator[bytes]:
    """Payloads of all whole records; after damage, search for the next one that is whole."""
    position = 0
    while (position := data.find(_MAGIC, position)) >= 0:
        if position + _HEADER.size > len(data):
            return
        _, length, checksum = _HEADER.unpack_from(data, position)
        start = position + _HEADER.size
        payload = data[start : start + length]
        if len(payload) == length and zlib.crc32(payload) == checksum:
            yield payload
            position = start + length
        else:
            position += 1
