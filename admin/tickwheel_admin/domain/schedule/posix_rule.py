"""The rule that a zone follows after its last listed change, such as CET-1CEST,M3.5.0,M10.5.0/3."""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

_EPOCH = date(1970, 1, 1).toordinal()
_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_TIME = r"[+-]?[0-9]{1,3}(?::[0-9]{2}){0,2}"
_DAY = r"M[0-9]{1,2}\.[1-5]\.[0-6]|J?[0-9]{1,3}"
_RULE = re.compile(
    rf"{_NAME}(?P<standard>{_TIME}){_NAME}(?P<summer>{_TIME})?"
    rf",(?P<start>{_DAY})(?:/(?P<start_time>{_TIME}))?"
    rf",(?P<end>{_DAY})(?:/(?P<end_time>{_TIME}))?"
)


class Change(NamedTuple):
    """Clocks going forward or back."""

    at: int  # UTC second
    offset: int  # from then on, seconds to be added to UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class PosixRule:
    """Two changes in every year, as POSIX writes them (TZ) and RFC 9636 extends them."""

    standard: int  # offsets, seconds to be added to UTC
    summer: int
    start: str  # day of the change to summer time: M3.5.0, J60 or 59
    start_time: int  # seconds after that day's midnight of standard time, also negative
    end: str
    end_time: int  # … of summer time

    @classmethod
    def read(cls, text: str) -> PosixRule | None:
        """None for a text without changes: its offset stays.

        Raises:
            ValueError: it names changes in a form that POSIX does not know.
        """
        if "," not in text:
            return None
        match = _RULE.fullmatch(text)
        if match is None:
            raise ValueError(f"not a rule for a time zone: {text!r}")
        standard = -_seconds(match["standard"])  # POSIX counts westwards
        summer = standard + 3_600 if match["summer"] is None else -_seconds(match["summer"])
        return cls(
            standard=standard,
            summer=summer,
            start=match["start"],
            start_time=_seconds(match["start_time"] or "2"),
            end=match["end"],
            end_time=_seconds(match["end_time"] or "2"),
        )

    def changes(self, year: int) -> tuple[Change, Change]:
        """Those of a year, in their order."""
        start = _midnight(self.start, year) + self.start_time - self.standard
        end = _midnight(self.end, year) + self.end_time - self.summer
        forward, back = Change(start, self.summer), Change(end, self.standard)
        return (forward, back) if start < end else (back, forward)


def _midnight(day: str, year: int) -> int:
    """When a day begins, in local seconds."""
    if day[0] == "M":
        month, week, weekday = (int(part) for part in day[1:].split("."))
        monday_first, length = monthrange(year, month)
        first = 1 + (weekday - monday_first - 1) % 7
        number = first + 7 * (week - 1)
        if number > length:
            number -= 7  # week 5 is the last one
        ordinal = date(year, month, number).toordinal()
    elif day[0] == "J":  # 1-365: 29 February is not counted
        number = int(day[1:])
        ordinal = date(year, 1, 1).toordinal() + number - 1
        ordinal += isleap(year) and number >= 60
    else:  # 0-365: it is
        ordinal = date(year, 1, 1).toordinal() + int(day)
    return (ordinal - _EPOCH) * 86_400


def _seconds(time: str) -> int:
    sign = -1 if time[0] == "-" else 1
    hours, minutes, seconds = ([int(part) for part in time.lstrip("+-").split(":")] + [0, 0])[:3]
    return sign * (hours * 3_600 + minutes * 60 + seconds)
