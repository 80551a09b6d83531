"""Paths to a value inside JSON: `data.items[0].state`, or a JSON Pointer `/data/items/0/state`."""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(-?[0-9]{1,6})\]")


class PathError(Exception):
    """Not a path, or it leads nowhere; says where it ended."""


def parse_path(path: str) -> tuple[str | int, ...]:
    """The steps of a path; none for "" and "$", which mean the whole.

    Raises:
        PathError: not a path.
    """
    if path.startswith("/"):  # RFC 6901
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/"))
    rest = path.removeprefix("$").removeprefix(".")
    steps: list[str | int] = []
    position = 0
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            raise PathError(
                f"{path!r} is not a path; write such as data.items[0].state, or /data/items/0/state"
            )
        steps.append(match[1] if match[1] is not None else int(match[2]))
        position = match.end()
    return tuple(steps)


def value_at(value: Any, path: str) -> Any:
    """The value that a path leads to.

    Raises:
        PathError: not a path, or there is nothing.
    """
    for step in parse_path(path):
        try:
            if isinstance(value, dict):
                value = value[str(step)]
            elif isinstance(value, list):
                value = value[int(step)]
            else:
                raise KeyError(step)
        except (KeyError, IndexError, ValueError):
            raise PathError(f"the JSON has nothing at {path}") from None
    return value


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal; other than in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
