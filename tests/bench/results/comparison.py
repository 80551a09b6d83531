"""An earlier result beside a new one: the ratio of every figure, and which way it went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.bench.results.repeats import flattened

NOISE = 1.1
"""Ratios up to this say nothing: the same bench twice in a row differs so much."""
CALM_SHARE = 0.05  # of all cores that may be in use before a bench
_MACHINE = ("processor", "cores", "memory_mebibytes", "python", "system")
_SETTINGS = ("size", "nodes", "slots_per_node")
FSYNC_NOISE = 1.5

# By the last part of a figure's name. What is in neither was given, or counts, and is not judged.
_MORE_IS_BETTER = ("per_second", "ratio")
_LESS_IS_BETTER = (
    "_ms", "_us", "_seconds", "_mebibytes", "_share", "_per_run", "_per_line", "cost_ratio",
    "mebibytes", "deaths", "cut_off", "missed", "duplicates", "milliseconds", "asked_per_second",
)  # fmt: skip
_GIVEN = ("fires_per_second",)


class Direction(Enum):
    """Which way a figure went."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"  # but for noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One figure of both results."""

    name: str
    before: float
    now: float
    direction: Direction

    @property
    def ratio(self) -> float:
        """Now over before; infinite where there was nothing."""
        return self.now / self.before if self.before else float("inf")


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """The figures that both results have and that can be better or worse, in the new order."""
    old, new = flattened(_figures(before)), flattened(_figures(now))
    found = []
    for name, value in new.items():
        sign = _sign(name)
        if sign is None or name not in old:
            continue
        direction = _direction(old[name], value, more_is_better=sign)
        found.append(Change(name=name, before=old[name], now=value, direction=direction))
    return found


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Why the two say little about each other, a sentence each."""
    for part, keys in (("machine", _MACHINE), ("settings", _SETTINGS)):
        old, new = before.get(part, {}), now.get(part, {})
        for key in keys:
            if old.get(key) != new.get(key):
                yield f"{part}.{key} was {old.get(key)}, is {new.get(key)}"
    old_fsync, new_fsync = (each.get("machine", {}).get("fsync_ms", 0) for each in (before, now))
    if max(old_fsync, new_fsync) > FSYNC_NOISE * min(old_fsync, new_fsync):
        yield f"an fsync took {old_fsync} ms, takes {new_fsync} ms"
    for when, result in (("the earlier one", before), ("this one", now)):
        busy = result.get("machine", {}).get("busy_before", 0)
        if busy > CALM_SHARE:
            yield f"other work used {busy:.0%} of the cores just before {when} began"


def _figures(result: Mapping[str, Any]) -> dict[str, Any]:
    apart = ("machine", "settings", "complete", "problems", "missing")
    return {name: part for name, part in result.items() if name not in apart}


def _sign(name: str) -> bool | None:
    """Whether more of a figure is better; None: it is not judged."""
    # The last part may be who spent it, or a page: then the part before says what it is.
    for part in reversed(name.split(".")):
        if part.endswith(_GIVEN):
            return None
        if part.endswith(_LESS_IS_BETTER):
            return False
        if part.endswith(_MORE_IS_BETTER):
            return True
    return None


def _direction(before: float, now: float, *, more_is_better: bool) -> Direction:
    low, high = sorted((before, now))
    if high <= low * NOISE or low == high:
        return Direction.SAME
    return Direction.BETTER if (now > before) is more_is_better else Direction.WORSE
