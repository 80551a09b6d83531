"""Names of nodes as jobs write them, with `*` for any text."""

from __future__ import annotations

import re
from functools import lru_cache


@lru_cache(maxsize=65_536)  # the router asks for every live node with every batch
def place_of(patterns: tuple[str, ...], name: str) -> int | None:
    """The place of the first pattern that a node's name matches, from 1; None: it matches none."""
    found = _expression(patterns).fullmatch(name)
    return None if found is None else found.lastindex


@lru_cache(maxsize=1_024)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One group for each pattern, so that the group that matched tells its place."""
    return re.compile("|".join(f"({_wildcard(pattern)})" for pattern in patterns), re.DOTALL)


def _wildcard(pattern: str) -> str:
    """A regular expression for a name with `*`, whose time grows with the name only.

    Each part between two stars may be taken where it first occurs, so nothing is tried again.
    """
    head, *parts = map(re.escape, pattern.split("*"))
    if not parts:
        return head
    middle = "".join(f"(?>.*?{part})" for part in parts[:-1] if part)
    return f"{head}{middle}.*{parts[-1]}"
