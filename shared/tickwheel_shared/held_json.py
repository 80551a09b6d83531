"""Which JSON is held: what every reader, in whatever language, reads as the number it is.

JSON allows numbers of any size. Readers that have 64-bit floats alone make infinity of `1e999`, or
refuse it, and neither can be written as JSON again. So a number must lie within ±1.8e308, as an
integer too; fractions may have more digits than a float keeps.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping

import msgspec

LARGEST = int(sys.float_info.max)  # 1.8e308, an integer of 309 digits
HUGE_NUMBER = "a number in it is beyond ±1.8e308, the largest that can be held"
_LONG_NUMBER = re.compile(rb"[0-9]{309}")


def why_not_held(text: bytes) -> str | None:
    """Why this cannot be kept and read again, in English; None: it can.

    Args:
        text: said to be JSON, in UTF-8.
    """
    try:
        value = msgspec.json.decode(text)
    except msgspec.ValidationError:  # it is JSON, but a number in it fits nowhere
        return HUGE_NUMBER
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return str(error)
    if _LONG_NUMBER.search(text) and has_huge_number(value):
        return HUGE_NUMBER
    return None


def has_huge_number(value: object) -> bool:
    """Whether a number in it, such as infinity or an integer of 400 digits, cannot be held."""
    seen: set[int] = set()  # a value that contains itself ends, too
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
