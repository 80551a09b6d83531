"""What differs between a run that failed and one that succeeded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tickwheel_admin.domain.runs.error import alike
from tickwheel_admin.domain.runs.run import Run

MAX_CHANGES = 50  # of parameters or labels that are told
MAX_CHARS = 300  # of one value or log line
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingValue:
    """A value that differs; None: there was none."""

    name: str
    good: str | None
    failed: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseLengths:
    """How long a part of both runs took, in ms; None: it was not reached."""

    name: str  # waiting, sending, running
    good_ms: int | None
    failed_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineDifference:
    """The first line in which two logs differ."""

    number: int  # from 1, the same in both
    good: str | None  # None: the log ends before it
    failed: str | None


def changes(good: Mapping[str, Any], failed: Mapping[str, Any]) -> list[DifferingValue]:
    """Keys whose values differ, by name; at most `MAX_CHANGES`."""
    names = sorted(name for name in good.keys() | failed.keys() if _differs(name, good, failed))
    return [
        DifferingValue(name=name, good=_shown(good, name), failed=_shown(failed, name))
        for name in names[:MAX_CHANGES]
    ]


def parameters_of(text: str) -> dict[str, Any]:
    """The parameters of a run by name; none of what is no object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def phases(good: Run, failed: Run) -> list[PhaseLengths]:
    """Waiting until it was sent, sending until it started, running until it ended."""
    return [
        PhaseLengths(name=name, good_ms=of_good, failed_ms=of_failed)
        for (name, of_good), (_, of_failed) in zip(_lengths(good), _lengths(failed), strict=True)
    ]


def first_difference(good: Iterable[str], failed: Iterable[str]) -> LineDifference | None:
    """The first line that differs by more than what differs each time (`runs.error.alike`).

    Colours are no difference, and are not shown.
    """
    lines = zip_longest(map(_plain, good), map(_plain, failed))
    for number, (one, other) in enumerate(lines, 1):
        if one is None or other is None or alike(one) != alike(other):
            return LineDifference(number=number, good=_cut(one), failed=_cut(other))
    return None


def _plain(line: str) -> str:
    return _COLOURS.sub("", line)


def _lengths(run: Run) -> list[tuple[str, int | None]]:
    # Of another attempt, what passed before it was due is no waiting: earlier ones and pauses.
    due_at = run.scheduled_at if run.attempt <= 1 else run.due_at
    return [
        ("waiting", _between(due_at, run.dispatched_at)),
        ("sending", _between(run.dispatched_at, run.started_at)),
        ("running", _between(run.started_at, run.ended_at)),
    ]


def _between(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else max(end - start, 0)


def _differs(name: str, good: Mapping[str, Any], failed: Mapping[str, Any]) -> bool:
    return name not in good or name not in failed or good[name] != failed[name]


def _shown(values: Mapping[str, Any], name: str) -> str | None:
    if name not in values:
        return None
    value = values[name]
    return _cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_CHARS]
