"""A calendar's spec as the JSON text that is stored, and back."""

from __future__ import annotations

import msgspec

from tickwheel_admin.domain.calendars.calendar import CalendarSpec
from tickwheel_admin.domain.defaults import without_defaults

_decoder = msgspec.json.Decoder(CalendarSpec)


def calendar_to_json(spec: CalendarSpec) -> str:
    """Equal specs give equal text; what has its default is left out."""
    return msgspec.json.encode(without_defaults(spec)).decode()


def calendar_from_json(text: str) -> CalendarSpec:
    """The spec that `calendar_to_json` wrote; what it does not name has its default."""
    return _decoder.decode(text)
