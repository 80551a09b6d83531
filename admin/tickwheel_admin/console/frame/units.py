"""What people type into fields: numbers, lengths, shares, instants, JSON; and back into text.

What cannot be read is noted as a problem of its field and gives None; whether the value makes sense
is decided where it goes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from tickwheel_admin.console.frame.locale import time_zones
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.input.json_text import BadJson, object_of_text

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFields:
    """The fields of a form as text, and the problems noted while they are read."""

    values: Mapping[str, str]
    problems: list[Problem]

    def text(self, name: str) -> str:
        return self.values.get(name, "").strip()

    def whole(self, name: str) -> int | None:
        """A whole number; None when nothing is typed."""
        text = self.text(name)
        if not text:
            return None
        if re.fullmatch(r"-?[0-9]{1,9}", text):
            return int(text)
        self.refuse(name, template="This must be a whole number.")
        return None

    def length(self, name: str, unit: str = "s") -> float | None:
        """Seconds, from a number in a unit."""
        number = self.number(name)
        return None if number is None else _short(number * UNITS.get(unit, 1))

    def share(self, name: str) -> float | None:
        """0 to 1, from per cent."""
        number = self.number(name)
        return None if number is None else round(number / 100, 8)

    def parameters(self, name: str) -> dict[str, Any]:
        """A JSON object; {} when nothing is typed."""
        try:
            return object_of_text(self.text(name) or "{}")
        except BadJson as error:
            self.problems.append(
                Problem(field=name, code=error.code, template=error.template, params=error.params)
            )
            return {}

    def local_instant(self, name: str, *, zone: str) -> str | None:
        """ISO 8601 with offset, of a local date and time in a named zone."""
        text = self.text(name)
        if not text:
            return None
        zone_info = ZoneInfo(zone) if zone in time_zones() else UTC
        try:
            return datetime.fromisoformat(text).replace(tzinfo=zone_info).isoformat()
        except ValueError:
            self.refuse(name, template="This must be a date and a time.")
            return None

    def refuse(self, name: str, *, template: str) -> None:
        """Note that a field cannot be read."""
        self.problems.append(Problem(field=name, code="wrong_type", template=template))

    def number(self, name: str) -> float | None:
        """A number; None when nothing is typed."""
        text = self.text(name).replace(",", ".")
        if not text:
            return None
        if _NUMBER.fullmatch(text):
            return float(text)
        self.refuse(name, template="This must be a number.")
        return None


def whole_number(text: str | None) -> int | None:
    """A whole number from an address; None also for what is none."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 15 else None


def in_units(ms: int | None) -> tuple[str, str]:
    """A length as a number and the largest unit that keeps it whole."""
    if ms is None:
        return "", "m"
    for unit, seconds in reversed(UNITS.items()):
        if ms % (seconds * 1000) == 0:
            return str(ms // (seconds * 1000)), unit
    return f"{ms / 1000:.12g}", "s"


def in_percent(share: float) -> str:
    """A share of 0 to 1 as it is typed."""
    return f"{share * 100:.8g}"


def pretty(parameters: str) -> str:
    """JSON for editing; no number passes through a float. What is nested too deeply stays as it is:
    the parameters of a child hold what its parent returned.
    """
    try:
        return msgspec.json.format(parameters, indent=2)
    except (msgspec.DecodeError, RecursionError):
        return parameters


def _short(seconds: float) -> float:
    return int(seconds) if seconds.is_integer() else round(seconds, 6)


def problems_at_fields(error: InvalidInput | Conflict) -> Sequence[Problem]:
    """What a form shows at its fields; a taken name belongs to one, other conflicts to none."""
    if isinstance(error, InvalidInput):
        return error.problems
    if error.code.endswith("name_taken"):
        return [
            Problem(field="name", code=error.code, template=error.template, params=error.params)
        ]
    return ()
