"""Paths to values, such as `steps.extract.result.files[0]`, and what they lead to.

parameters.…      of the workflow's run
steps.KEY.result  of a step that has ended; of a `for_each` step the list of its items' results
steps.KEY.state   succeeded, failed, timed_out, lost, cancelled or skipped
run.…             of the workflow's run: id, scheduled_at and what else the engine gives
item, item_index  within a step with `for_each`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

ROOTS = ("parameters", "steps", "run", "item", "item_index")
MAX_PATH_PARTS = 50
_FIRST = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_PART = re.compile(
    r"""\.(?P<name>[A-Za-z0-9_][A-Za-z0-9_-]*)|\[(?P<index>0|[1-9][0-9]{0,8})\]"""
    r"""|\["(?P<key>[^"\\\x00-\x1f]{0,200})"\]""",
    re.ASCII,
)

Path = tuple[str | int, ...]
Scope = Mapping[str, Any]  # values by root; `steps` by key, each with `result` and `state`


class NoValue(Exception):
    """A path leads to nothing."""

    def __init__(self, path: Path, found: int) -> None:
        self.name = in_words(path)
        self.found = in_words(path[:found])  # as far as there is something; "": not even its root
        super().__init__(f"there is no value “{self.name}”")


def read_path(text: str, start: int = 0) -> tuple[Path, int] | None:
    """The path that begins there, and where it ends; None if none begins there."""
    first = _FIRST.match(text, start)
    if first is None:
        return None
    parts: list[str | int] = [first.group()]
    end = first.end()
    while len(parts) < MAX_PATH_PARTS and (part := _PART.match(text, end)) is not None:
        index, name = part.group("index"), part.group("name")
        parts.append(int(index) if index is not None else name or part.group("key") or "")
        end = part.end()
    return tuple(parts), end


def in_words(path: Path) -> str:
    """The path as people write it."""
    words = ""
    for part in path:
        if isinstance(part, int):
            words += f"[{part}]"
        elif not _FIRST.fullmatch(part):
            words += f'["{part}"]'
        else:
            words += f".{part}" if words else part
    return words


def value_at(scope: Scope, path: Path) -> Any:
    """What the path leads to; raises NoValue."""
    value: Any = scope
    for count, part in enumerate(path):
        if isinstance(value, Mapping):
            key = str(part)
            if key in value:
                value = value[key]
                continue
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
            continue
        raise NoValue(path, count)
    return value


def step_of(path: Path) -> str | None:
    """The step whose end the path needs; None: it needs none."""
    return str(path[1]) if path[0] == "steps" and len(path) > 1 else None
