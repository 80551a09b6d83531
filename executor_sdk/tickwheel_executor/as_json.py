"""What a handler returned, or leaves for another attempt, as JSON of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tickwheel_shared.portable_json import why_not_portable

from .text import exception_text

_HUGE_BYTES = 1024 * 1024  # above this, nobody needs to know how large it is
_MAX_DEPTH = 200
NULL = msgspec.Raw(b"null")
_CONTAINERS = (dict, list, tuple, set, frozenset)
_SIZED = (str, bytes, bytearray, *_CONTAINERS)
_encoder = msgspec.json.Encoder()


def encode(value: object, *, what: str, limit: int) -> tuple[msgspec.Raw, str]:
    """JSON text of a value, or null and one sentence about what is wrong with it.

    Args:
        what: how the sentence calls the value.
        limit: most bytes that the JSON may have.
    """
    if value is None:
        return NULL, ""
    try:
        text = b"" if _is_huge(value) else _encoder.encode(value)
    except Exception as error:  # noqa: BLE001 (a value's own code may raise anything: a failed run)
        return NULL, f"{what} cannot be written as JSON: {exception_text(error)}"
    if text and len(text) <= limit:
        # An admin would refuse it, and ready-made JSON (`msgspec.Raw`) may be anything.
        unheld = why_not_portable(text)
        return (NULL, f"{what} cannot be kept: {unheld}") if unheld else (msgspec.Raw(text), "")
    size = f"{len(text):,}" if text else f"more than {_HUGE_BYTES:,}"
    return NULL, f"{what} is {size} bytes of JSON; the limit is {limit:,}"


def _is_huge(value: object) -> bool:
    """Whether its JSON is far too long, found without writing it: that may take gigabytes."""
    size = 0
    levels: list[Iterator[object]] = [iter((value,))]
    while levels:
        for item in levels[-1]:
            size += 1
            if isinstance(item, _SIZED):
                size += len(item)
            if size > _HUGE_BYTES:
                return True
            if isinstance(item, dict):
                size += sum(len(key) for key in item if isinstance(key, str))
                levels.append(iter(item.values()))
                break
            if isinstance(item, _CONTAINERS):
                levels.append(iter(item))
                break
        else:
            levels.pop()
        if len(levels) > _MAX_DEPTH:
            return False  # perhaps it contains itself; the encoder knows
    return False
