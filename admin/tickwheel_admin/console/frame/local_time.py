"""Instants as fields for a local date and time hold them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, time_zones


def local_zone() -> ZoneInfo:
    """The time zone that local times of this request are in."""
    name = REQUEST_LOCALE.get().timezone
    return ZoneInfo(name if name in time_zones() else "UTC")


def local_text(at: int | None) -> str:
    """An instant as a field for a local date and time holds it; "" for none."""
    if at is None:
        return ""
    local = datetime.fromtimestamp(at / 1000, local_zone()).replace(tzinfo=None)
    return local.isoformat(timespec="minutes" if not local.second else "seconds")


def instant_of(text: str) -> int | None:
    """UTC epoch ms of a local date and time in the reader's zone; None for what is none."""
    try:
        return round(datetime.fromisoformat(text).replace(tzinfo=local_zone()).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
