"""Portable JSON: its numbers mean the same to every reader, in any language.

JSON allows numbers of any size. A reader that only has 64-bit floats reads `1e999` as infinity, or
refuses it, and infinity cannot be written as JSON. So every number, integers included, must lie
within ±1.8e308. Fractions may have more digits than a float keeps.

Nor may objects and lists lie more than MAX_DEPTH deep within each other: many readers are
recursive, and may have little of their stack left.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping

import msgspec

LARGEST = int(sys.float_info.max)  # 1.8e308, an integer of 309 digits
MAX_DEPTH = 100  # objects and lists within each other
TOO_DEEP = f"it is nested more than {MAX_DEPTH} deep"
HUGE_NUMBER = "a number in it is beyond ±1.8e308, the largest that can be held"
_LONG_NUMBER = re.compile(rb"[0-9]{309}")


def why_not_portable(text: bytes) -> str | None:
    """Why this text cannot be stored and read again, in English; None: it can.

    Args:
        text: UTF-8 that should be JSON.
    """
    try:
        value = msgspec.json.decode(text)
    except msgspec.ValidationError:  # it is JSON, but a number in it fits nowhere
        return HUGE_NUMBER
    except RecursionError:
        return TOO_DEEP
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return str(error)
    # Nearly all have fewer brackets than that, be they in texts.
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and not is_within(value, MAX_DEPTH):
        return TOO_DEEP
    if _LONG_NUMBER.search(text) and has_huge_number(value):
        return HUGE_NUMBER
    return None


def has_huge_number(value: object) -> bool:
    """Whether it contains a number out of range, such as infinity or an integer of 400 digits."""
    seen: set[int] = set()  # a value may contain itself
    level = [value]
    while level:
        deeper: list[object] = []
        for each in level:
            if isinstance(each, float):
                if math.isinf(each):
                    return True
            elif isinstance(each, int):
                if not -LARGEST <= each <= LARGEST:
                    return True
            elif isinstance(each, Mapping | list | tuple) and id(each) not in seen:
                seen.add(id(each))
                deeper += each.values() if isinstance(each, Mapping) else each
        level = deeper
    return False


def is_within(value: object, depth: int) -> bool:
    """Whether objects and lists lie at most so deep within each other; 1: one that holds none."""
    level = [value]
    for _ in range(depth):
        level = [inner for each in level for inner in _inner(each)]
        if not level:
            return True
    return not any(isinstance(each, Mapping | list) for each in level)


def _inner(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()
