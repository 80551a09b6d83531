"""Writes serialised Java objects, also such as Java would not write."""

from __future__ import annotations

import struct

MAGIC = b"\xac\xed\x00\x05"
_FIRST_HANDLE = 0x7E0000


def text(value: str) -> bytes:
    return b"\x74" + _name(value)


def java_object(
    name: str, fields: dict[str, tuple[str, bytes]] | None = None, *written: bytes
) -> bytes:
    """An object without a parent.

    Args:
        fields: type code and value of each.
        written: what its class writes beside them.
    """
    fields = fields or {}
    described = b"".join(
        code.encode() + _name(field) + (text("Ljava/lang/Object;") if code == "L" else b"")
        for field, (code, _) in fields.items()
    )
    flags = b"\x03" if written else b"\x02"
    head = b"\x72" + _name(name) + bytes(8) + flags + struct.pack(">H", len(fields))
    values = b"".join(value for _, value in fields.values())
    end = b"".join(written) + b"\x78" if written else b""
    return b"\x73" + head + described + b"\x78\x70" + values + end


def job_data(value: bytes) -> bytes:
    """A stream with a map: `key` and a value, whose first handle is the fourth one."""
    return MAGIC + java_object("java.util.HashMap", None, text("key"), value)


def block(content: bytes) -> bytes:
    return b"\x77" + bytes([len(content)]) + content


def bytes_array(content: bytes) -> bytes:
    head = b"\x75\x72" + _name("[B") + bytes(8) + b"\x02\x00\x00\x78\x70"
    return head + struct.pack(">i", len(content)) + content


def shared_lists(depth: int, *, first_handle: int) -> bytes:
    """A list that holds a list twice, which holds a list twice, and so on."""
    if depth == 0:
        return text("x")
    inner = shared_lists(depth - 1, first_handle=first_handle + 2)
    # Each class and each list has a handle; the innermost thing is a text.
    handle = first_handle + (2 if depth == 1 else 3)
    again = b"\x71" + struct.pack(">i", _FIRST_HANDLE + handle)
    return java_object("java.util.ArrayList", None, inner, again)


def _name(value: str) -> bytes:
    content = value.encode()
    return struct.pack(">H", len(content)) + content
