"""Tables of cells that are darker the more they hold, as `heat_macros.table` shows them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LEVELS = 5  # shades beside that of an empty cell
HOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """One cell."""

    count: int
    level: int  # 0 (nothing) to LEVELS
    when: str  # the time it stands for, in words
    text: str  # how many, and of what
    is_over: bool = False
    href: str | None = None  # what fires then, or ran


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatLine:
    """A row of cells."""

    name: str
    cells: tuple[HeatCell, ...]
    count: int
    href: str | None = None  # of the day, executor or job that the row is about


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatTable:
    """Rows of cells under their columns."""

    columns: tuple[str, ...]
    lines: tuple[HeatLine, ...]


def against_usual(counts: Sequence[Sequence[int]]) -> Callable[[int], int]:
    """Shades that show what stands out: an even load is of the middle one."""
    some = [count for row in counts for count in row if count]
    usual = sum(some) / len(some) if some else 1.0
    limits = (0.5 * usual, 0.85 * usual, 1.25 * usual, 1.75 * usual)
    return lambda count: 0 if count == 0 else 1 + sum(count > limit for limit in limits)


def by_magnitude(counts: Sequence[Sequence[int]]) -> Callable[[int], int]:
    """Shades for rows that differ by orders of magnitude, as those of jobs do."""
    scale = math.log1p(max((count for row in counts for count in row), default=0)) or 1.0
    return lambda count: math.ceil(LEVELS * math.log1p(count) / scale)


def hour_columns() -> tuple[str, ...]:
    """The hours of a day."""
    return tuple(f"{hour:02}" for hour in range(HOURS))


def hour_span(hour: int, minute: int, minutes: int) -> str:
    """From when until when, "08:00–09:00"."""
    end = hour * 60 + minute + minutes
    return f"{hour:02}:{minute:02}–{end // 60:02}:{end % 60:02}"
