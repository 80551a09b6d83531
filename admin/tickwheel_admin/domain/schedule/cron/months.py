"""The months from 1970 to 2199 as days since 1970-01-01, and their 28 shapes.

Which of its days match depends only on the weekday of a month's first day and on its length.
"""

from __future__ import annotations

from calendar import monthrange
from typing import NamedTuple

from tickwheel_admin.domain.schedule.cron.fields import FIRST_YEAR, LAST_YEAR


class Shape(NamedTuple):
    """A month without its name."""

    first: int  # weekday of its first day, 0 (Sunday)..6
    length: int  # days, 28..31


SHAPES: tuple[Shape, ...] = tuple(
    Shape(first, length) for length in (28, 29, 30, 31) for first in range(7)
)


def _months() -> tuple[tuple[int, ...], bytes]:
    starts, shapes = [0], bytearray()
    for year in range(FIRST_YEAR, LAST_YEAR + 1):
        for month in range(1, 13):
            monday_first, length = monthrange(year, month)
            starts.append(starts[-1] + length)
            shapes.append((length - 28) * 7 + (monday_first + 1) % 7)
    return tuple(starts), bytes(shapes)


# Month number n is January 1970 for 0; the last start is the day after the last month.
MONTH_STARTS, SHAPE_OF_MONTH = _months()
MONTHS = len(SHAPE_OF_MONTH)
END_DAY = MONTH_STARTS[-1]
