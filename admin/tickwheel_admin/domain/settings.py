"""Settings of the whole installation, which admins of it change in the console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.zones import zone_of

MAX_NAME_CHARS = 40
MAX_DAYS = 36_500
MIN_AUDIT_DAYS = 30  # so that who shortens the audit is still to be found in it


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationSettings:
    """What every admin follows, whatever its own configuration says."""

    instance_name: str = ""  # beside the brand and in titles, "prod-eu"; at most 40 characters
    retention_days: int | None = None  # of ended runs; None: as each admin is configured
    audit_retention_days: int = 400  # at least MIN_AUDIT_DAYS
    default_timezone: str | None = None  # of readers whose own zone is not known; None: UTC


def parse_settings(raw: Mapping[str, Any]) -> InstallationSettings:
    """Settings from their JSON object; what is not named is at its default.

    Raises:
        InvalidInput: with every problem found.
    """
    problems: list[Problem] = []
    fields = Fields(raw, "", problems)
    fields.only(InstallationSettings.__dataclass_fields__)
    zone = fields.text("default_timezone", max_chars=100) or None
    try:
        zone_of(zone)
    except ScheduleError as error:
        fields.refuse("default_timezone", "timezone.unknown", error.template, **error.params)
    defaults = InstallationSettings()
    settings = InstallationSettings(
        instance_name=fields.text("instance_name", max_chars=MAX_NAME_CHARS, is_name=True),
        retention_days=(
            fields.integer("retention_days", low=1, high=MAX_DAYS, default=1)
            if fields.has("retention_days")
            else None
        ),
        audit_retention_days=fields.integer(
            "audit_retention_days",
            low=MIN_AUDIT_DAYS,
            high=MAX_DAYS,
            default=defaults.audit_retention_days,
        ),
        default_timezone=zone,
    )
    raise_if_any(problems)
    return settings


def settings_to_raw(settings: InstallationSettings) -> dict[str, Any]:
    """The JSON object that `parse_settings` reads."""
    return asdict(settings)


def settings_to_json(settings: InstallationSettings) -> str:
    """As the table keeps it."""
    return msgspec.json.encode(settings).decode()


def settings_from_json(text: str | None) -> InstallationSettings:
    """What an admin of any version stored; None: nobody has set anything yet."""
    if text is None:
        return InstallationSettings()
    return msgspec.json.decode(text, type=InstallationSettings)
