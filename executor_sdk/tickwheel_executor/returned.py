"""What a handler returned, as the JSON of the run's result."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tickwheel_shared.protocol import MAX_RESULT_BYTES

from .raised import text_of

_HUGE_BYTES = 1024 * 1024  # above this, nobody needs to know how large it is
_MAX_DEPTH = 200
_NULL = msgspec.Raw(b"null")
_CONTAINERS = (dict, list, tuple, set, frozenset)
_SIZED = (str, bytes, bytearray, *_CONTAINERS)
_encoder = msgspec.json.Encoder()


def encode(value: object) -> tuple[msgspec.Raw, str]:
    """JSON text of a handler's return value, or null and what is wrong with it."""
    if value is None:
        return _NULL, ""
    try:
        text = b"" if _is_huge(value) else _encoder.encode(value)
    except Exception as error:  # noqa: BLE001 (a value's own code may raise anything: a failed run)
        return _NULL, f"the handler's return value cannot be written as JSON: {text_of(error)}"
    if text and len(text) <= MAX_RESULT_BYTES:
        return msgspec.Raw(text), ""
    size = f"{len(text):,}" if text else f"more than {_HUGE_BYTES:,}"
    return _NULL, (
        f"the handler's return value is {size} bytes of JSON; the limit is {MAX_RESULT_BYTES:,}"
    )


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
