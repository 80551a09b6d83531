"""Values of handlers as JSON of limited size: results, states, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tickwheel_shared.portable_json import why_not_portable

from .text import exception_text

_HUGE_BYTES = 1024 * 1024  # above this, the exact size does not matter
_MAX_DEPTH = 200
NULL = msgspec.Raw(b"null")
_CONTAINERS = (dict, list, tuple, set, frozenset)
_SIZED = (str, bytes, bytearray, *_CONTAINERS)
_encoder = msgspec.json.Encoder()


def encode(value: object, *, what: str, limit: int) -> tuple[msgspec.Raw, str]:
    """JSON of a value and "", or null and one sentence that says what is wrong with it.

    Args:
        what: name of the value in that sentence.
        limit: maximum size of the JSON in bytes.
    """
    if value is None:
        return NULL, ""
    try:
        text = b"" if _is_huge(value) else _encoder.encode(value)
    except Exception as error:  # noqa: BLE001 (code of the value may raise anything)
        return NULL, f"{what} cannot be written as JSON: {exception_text(error)}"
    if text and len(text) <= limit:
        # An admin would refuse it; and `msgspec.Raw` may contain anything.
        problem = why_not_portable(text)
        return (NULL, f"{what} cannot be kept: {problem}") if problem else (msgspec.Raw(text), "")
    size = f"{len(text):,}" if text else f"more than {_HUGE_BYTES:,}"
    return NULL, f"{what} is {size} bytes of JSON; the limit is {limit:,}"


def _is_huge(value: object) -> bool:
    """Whether its JSON is far too long, checked without encoding it, which may take gigabytes."""
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
            return False  # perhaps it contains itself; the encoder finds out
    return False
