"""Patterns of paths: `*.log`, `app/*/old-?.log`, `**/*.tmp`; `**` is any number of folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate

from tickwheel_executor.errors import Fail

ANY_FOLDERS = "**"
States = frozenset[int]


class Glob:
    """One pattern, matched name by name on the way down, so that no folder is read in vain."""

    def __init__(self, pattern: str, *, field: str = "glob") -> None:
        parts = path_parts(pattern, field=field)
        self._parts = [
            None if part == ANY_FOLDERS else re.compile(translate(part)) for part in parts
        ]
        self.start = self._closed({0})

    def step(self, states: States, name: str) -> States:
        """Where a name leads; empty: nothing below can match."""
        found: set[int] = set()
        for index in states:
            if index == len(self._parts):
                continue
            part = self._parts[index]
            if part is None:
                found.add(index)
            elif part.match(name):
                found.add(index + 1)
        return self._closed(found)

    def accepts(self, states: States) -> bool:
        """Whether the whole pattern has matched."""
        return len(self._parts) in states

    def matches(self, parts: Iterable[str]) -> bool:
        """Whether a whole path matches."""
        states = self.start
        for name in parts:
            states = self.step(states, name)
        return self.accepts(states)

    def _closed(self, states: set[int]) -> States:
        """With what `**` reaches by standing for no folder."""
        found = set(states)
        for index, part in enumerate(self._parts):
            if index in found and part is None:
                found.add(index + 1)
        return frozenset(found)


def exclusion(pattern: str) -> Glob:
    """A pattern of files to leave alone; without a slash it means names in every folder."""
    return Glob(pattern if "/" in pattern else f"**/{pattern}", field="exclude")


def path_parts(path: str, *, field: str) -> tuple[str, ...]:
    """The names of a relative path.

    Raises:
        Fail: it leads out of the root, or is none.
    """
    parts = tuple(path.split("/"))
    if path.startswith("/") or ".." in parts:
        raise Fail(f"{field}: {path!r} leads out of the root; write a path below it, without ..")
    if not path or "\0" in path or any(part in ("", ".") for part in parts):
        raise Fail(f"{field}: {path!r} is no path below the root; write such as logs/app")
    return parts
