"""Periods of the list of runs: days and nights by the clocks of the reader's zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, RequestLocale
from tickwheel_admin.console.runs.periods import period_of


def utc(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "now", "word", "start", "end"),
    [
        ("UTC", "2026-03-10T12:00", "yesterday", "2026-03-09T00:00", "2026-03-10T00:00"),
        ("UTC", "2026-03-10T12:00", "night", "2026-03-09T20:00", "2026-03-10T08:00"),
        # At night it is the night that goes on, in the evening a new one has begun.
        ("UTC", "2026-03-10T02:00", "night", "2026-03-09T20:00", "2026-03-10T08:00"),
        ("UTC", "2026-03-10T21:00", "night", "2026-03-10T20:00", "2026-03-11T08:00"),
        # A day of 23 hours, and one of 25.
        ("Europe/Berlin", "2026-03-30T10:00", "yesterday", "2026-03-28T23:00", "2026-03-29T22:00"),
        ("Europe/Berlin", "2026-10-26T10:00", "yesterday", "2026-10-24T22:00", "2026-10-25T23:00"),
        ("Europe/Berlin", "2026-03-29T10:00", "night", "2026-03-28T19:00", "2026-03-29T06:00"),
        ("Asia/Shanghai", "2026-03-10T20:00", "yesterday", "2026-03-09T16:00", "2026-03-10T16:00"),
    ],
)
def test_days_and_nights(zone: str, now: str, word: str, start: str, end: str) -> None:
    token = REQUEST_LOCALE.set(RequestLocale(now_at=utc(now), timezone=zone))
    try:
        assert period_of(word) == (utc(start), utc(end))
    finally:
        REQUEST_LOCALE.reset(token)
