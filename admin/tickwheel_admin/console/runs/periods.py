"""Periods that people filter runs by: of so many hours, or of the day before, in their own zone."""

from __future__ import annotations

from datetime import datetime, timedelta

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.local_time import local_zone
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.console.runs.filter import LAST

NIGHT_FROM, NIGHT_TO = 20, 8  # hours of the day between which a night lies
YESTERDAY, NIGHT = "yesterday", "night"
PERIODS = (*LAST, NIGHT, YESTERDAY)


def period_of(word: str) -> tuple[int, int | None]:
    """From when and until when, UTC epoch ms; until None: there is no end.

    Days begin when the clocks of the reader's zone say so, however long they are. The last night
    is the one that goes on, or that ended last.
    """
    now_at = REQUEST_LOCALE.get().now_at
    if word in LAST:
        return now_at - LAST[word], None
    today = datetime.fromtimestamp(now_at / 1000, local_zone())
    if word == NIGHT:
        # In the evening a new night has begun.
        night = today if today.hour >= NIGHT_FROM else today - timedelta(days=1)
        return _at(night, NIGHT_FROM), _at(night + timedelta(days=1), NIGHT_TO)
    return _at(today - timedelta(days=1), 0), _at(today, 0)


def period_name(word: str) -> str:
    """What a button calls it."""
    return {NIGHT: _("last night"), YESTERDAY: _("yesterday")}.get(word, word)


def _at(day: datetime, hour: int) -> int:
    """An hour of the clocks on the day of this local time, UTC epoch ms."""
    local = datetime(day.year, day.month, day.day, hour, tzinfo=local_zone())
    return round(local.timestamp() * 1000)
