"""The fields that only one kind of trigger has, as people are asked for them.

The form, the fields that requests may name, and what a browser sends are made from these records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Input(StrEnum):
    """What a field holds, and so how it is drawn, shown and read."""

    EXPRESSION = "expression"  # text in which a problem has a position
    DIALECT = "dialect"  # one of the cron dialects, and the builder of expressions
    LENGTH = "length"  # seconds, typed as a number and a unit
    COUNT = "count"  # a whole number, and one of `choices` beside it
    WHOLE = "whole"  # a whole number
    INSTANT = "instant"  # typed as a local time of the trigger's zone
    DATE = "date"
    TIME = "time"  # of the day, on the wall
    WEEKDAYS = "weekdays"  # any of the seven


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnField:
    """One field; texts are in the reader's language."""

    name: str  # in requests
    input: Input
    label: str
    is_required: bool = False  # in requests; COUNT: its unit is, and the number has a default
    place: str = ""  # its name in the form, where another kind has a field of the same name
    default: str = ""  # in the form of a new trigger
    hint: str = ""
    placeholder: str = ""
    unit: str = ""  # LENGTH: the unit it starts with; COUNT: the request's field of `choices`
    unit_default: str = ""  # COUNT: the choice it starts with
    choices: Sequence[tuple[str, str]] = ()  # COUNT: (value, text)
    is_seldom: bool = False  # it stands in the part of the form that is closed at first
    beside: bool = False  # it stands next to the field before it

    @property
    def form_name(self) -> str:
        """What the form calls it."""
        return self.place or self.name

    @property
    def names(self) -> tuple[str, ...]:
        """What requests call the fields that it stands for."""
        return (self.name, self.unit) if self.input is Input.COUNT else (self.name,)
