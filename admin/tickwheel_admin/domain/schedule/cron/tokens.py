"""What stands in a field of a cron expression, as data: for the masks and for people.

Weekdays are 0 (Sunday) to 6 (Saturday) here, whatever the dialect writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwheel_admin.domain.schedule.cron.fields import FieldKind


@dataclass(frozen=True, slots=True)
class All:
    """`*` or `?`, or `*/step`: from the field's first value on."""

    step: int = 1


@dataclass(frozen=True, slots=True)
class Value:
    """One number or name."""

    value: int


@dataclass(frozen=True, slots=True)
class Range:
    """`first-last` or `first-last/step`; it wraps around when last is before first."""

    first: int
    last: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class From:
    """`first/step`: up to the field's last value."""

    first: int
    step: int


@dataclass(frozen=True, slots=True)
class LastDay:
    """`L` and `L-n`: so many days before the last day of the month."""

    before: int = 0


@dataclass(frozen=True, slots=True)
class LastWorkday:
    """`LW` and `L-nW`: the weekday nearest to such a day, within the month."""

    before: int = 0


@dataclass(frozen=True, slots=True)
class NearestWorkday:
    """`nW`: Monday to Friday nearest to that day, within the month that has such a day."""

    day: int


@dataclass(frozen=True, slots=True)
class LastWeekday:
    """`nL`: the last such weekday of the month."""

    weekday: int


@dataclass(frozen=True, slots=True)
class NthWeekday:
    """`n#k`: the k-th such weekday of the month, in months that have so many."""

    weekday: int
    nth: int  # 1..5


Special = LastDay | LastWorkday | NearestWorkday | LastWeekday | NthWeekday  # depend on the month
Token = All | Value | Range | From | Special


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field that has been read; the same object for the same text."""

    kind: FieldKind
    text: str  # normal form: upper case
    tokens: tuple[Token, ...]
    mask: int  # a bit for each plain value: second, minute, hour, day 1-31, month 1-12, weekday
    # 0-6, year - 1970
    specials: tuple[Special, ...]  # the days that depend on the month
    is_any: bool  # written as `*` or `?`
    is_starred: bool  # begins with `*` or `?`: for cron it restricts nothing, were it `*/2`
    is_interval: bool  # written with `*`, `-` or `/`
    is_in_every_month: bool  # of the two days: there is such a day in every month of every year

    @property
    def values(self) -> tuple[int, ...]:
        """The bits of the mask, ascending."""
        return tuple(n for n in range(self.mask.bit_length()) if self.mask >> n & 1)
