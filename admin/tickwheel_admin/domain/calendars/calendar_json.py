"""A calendar's spec as the JSON text that is stored, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from tickwheel_admin.domain.calendars.calendar import CalendarSpec

_decoder = msgspec.json.Decoder(CalendarSpec)


def calendar_to_json(spec: CalendarSpec) -> str:
    """Equal specs give equal text; what has its default is left out."""
    return msgspec.json.encode(_without_defaults(spec)).decode()


def calendar_from_json(text: str) -> CalendarSpec:
    """The spec that `calendar_to_json` wrote; what it does not name has its default."""
    return _decoder.decode(text)


def _without_defaults(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, in the order of the class."""
    return {
        field.name: _plain(found)
        for field in dataclasses.fields(value)
        if (found := getattr(value, field.name)) != field.default
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return _without_defaults(value) if dataclasses.is_dataclass(value) else value
