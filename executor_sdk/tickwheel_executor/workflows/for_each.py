"""The items of a step: its list, if it has `for_each`, and how many of them may fail."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tickwheel_shared.workflows.parts import MAX_ITEMS, Tolerance

from .references import Reference, as_json

_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,4})?) ?%", re.ASCII)


def for_each_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `Step` that say it.

    Raises:
        ValueError: what is wrong with it.
    """
    items = fields.get("for_each")
    most, tolerate = fields.get("max_parallel"), fields.get("tolerate", 0)
    if most is not None and not _is_count(most, low=1):
        raise ValueError(f"max_parallel is {most!r}; wanted a whole number, 1 to {MAX_ITEMS:,}")
    return {
        "items": None if items is None else _items(items),
        "max_parallel": most,
        "tolerate": tolerate,
        "tolerance": _tolerance(tolerate),
    }


def _items(items: object) -> str:
    if isinstance(items, Reference | str):
        text = str(items)
        if not (text.startswith("${") and text.endswith("}") and text.count("${") == 1):
            raise ValueError(f"for_each is {items!r}; wanted a list, or such as extract.result")
        return as_json(text)
    if not isinstance(items, list | tuple):
        raise ValueError(f"for_each is a {type(items).__name__}; wanted a list, or a result")
    if len(items) > MAX_ITEMS:
        raise ValueError(f"for_each has {len(items):,} items; at most {MAX_ITEMS:,} are allowed")
    try:
        return as_json(items)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"for_each cannot be written as JSON: {error}") from error


def _tolerance(tolerate: object) -> Tolerance:
    if isinstance(tolerate, int) and _is_count(tolerate, low=0):
        return Tolerance(count=tolerate)
    if tolerate == "all":
        return Tolerance(percent=100.0)
    found = _PERCENT.fullmatch(tolerate) if isinstance(tolerate, str) else None
    if found is None or float(found.group(1)) > 100:
        raise ValueError(f'tolerate is {tolerate!r}; wanted a number of items, "5%" or "all"')
    return Tolerance(percent=float(found.group(1)))


def _is_count(value: object, *, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= MAX_ITEMS
