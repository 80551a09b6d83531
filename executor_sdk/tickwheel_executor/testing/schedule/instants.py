"""Instants as tests write them, and as runs show them."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def zone_named(name: str) -> ZoneInfo:
    """The zone; ValueError when there is none of this name."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"timezone: there is no time zone {name!r}") from None


def to_ms(moment: str | date, zone: ZoneInfo, *, name: str) -> int:
    """UTC epoch ms of a date (its midnight), a datetime, or either in ISO 8601.

    Args:
        zone: of what names none.
        name: of the argument, for errors.

    Raises:
        ValueError: it cannot be read.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise ValueError(
                f"{name}: {moment!r} is no date: write it like 2026-03-01 or 2026-03-01T06:00"
            ) from None
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def to_moment(ms: int, zone: ZoneInfo) -> datetime:
    """The same instant, by the clocks of a zone."""
    return (_EPOCH + timedelta(milliseconds=ms)).astimezone(zone)
