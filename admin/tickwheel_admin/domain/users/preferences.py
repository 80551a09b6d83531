"""How a person wants to read the console, wherever they log in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import zone_of

LANGUAGES = ("en", "zh_CN", "zh_Hant")
THEMES = ("light", "dark", "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """None each: not chosen, so the browser's own."""

    language: str | None = None  # one of `LANGUAGES`
    theme: str | None = None  # one of `THEMES`
    timezone: str | None = None  # an IANA name


def parse_preferences(raw: Mapping[str, Any]) -> Preferences:
    """Preferences from their JSON object; what is not named, null or empty is not chosen.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    fields = Fields({name: value for name, value in raw.items() if value != ""}, "", problems)
    fields.only(Preferences.__dataclass_fields__)
    timezone = fields.text("timezone", max_chars=100) or None
    try:
        zone_of(timezone)
    except ScheduleError as error:
        fields.refuse("timezone", "timezone.unknown", error.template, **error.params)
    preferences = Preferences(
        language=_choice(fields, "language", LANGUAGES),
        theme=_choice(fields, "theme", THEMES),
        timezone=timezone,
    )
    raise_if_any(problems)
    return preferences


def preferences_to_raw(preferences: Preferences) -> dict[str, str | None]:
    """The JSON object that `parse_preferences` reads."""
    return asdict(preferences)


def preferences_to_json(preferences: Preferences) -> str:
    """As the table keeps it."""
    return msgspec.json.encode(preferences).decode()


def preferences_from_json(text: str) -> Preferences:
    """What an admin of any version stored."""
    return msgspec.json.decode(text, type=Preferences)


def _choice(fields: Fields, name: str, allowed: Collection[str]) -> str | None:
    return fields.choice(name, allowed, default="") or None
