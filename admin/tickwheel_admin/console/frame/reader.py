"""Who reads the page: language, time zone, theme; how numbers and instants look to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from aiohttp import web
from babel.dates import format_datetime
from babel.numbers import format_compact_decimal, format_decimal, format_percent

from tickwheel_admin.console.frame.i18n import HTML_LANG, LANGUAGE, gettext
from tickwheel_admin.domain.fields import MAX_INSTANT, MIN_INSTANT, is_instant
from tickwheel_admin.web.i18n import CHINESE, ENGLISH, language_of
from tickwheel_admin.web.keys import SERVICES

THEMES = ("light", "dark", "system")
THEME_COOKIE = "tickwheel_theme"
TIME_ZONE_COOKIE = "tickwheel_time_zone"  # set by the page's script, which knows the browser's zone
CHOSEN_ZONE_COOKIE = "tickwheel_chosen_zone"  # of a person who wants another one

NOW: web.AppKey[Callable[[], int]] = web.AppKey("console_now")
"""UTC epoch ms for what pages show beside instants; tests stop it."""

# Patterns by name; the scripts that show instants in the browser's zone use the same forms.
_PATTERNS = {
    "time": {"en": "HH:mm:ss", "zh_CN": "HH:mm:ss"},
    "minute": {"en": "HH:mm", "zh_CN": "HH:mm"},
    "short": {"en": "MMM d, HH:mm", "zh_CN": "M月d日 HH:mm"},
    "full": {"en": "MMM d, y, HH:mm:ss", "zh_CN": "y年M月d日 HH:mm:ss"},
    "weekday": {"en": "EEE, MMM d, HH:mm:ss", "zh_CN": "M月d日 EEE HH:mm:ss"},
    "day": {"en": "EEEE, d MMMM", "zh_CN": "M月d日 EEEE"},
    "date": {"en": "MMM d", "zh_CN": "M月d日"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Whoever the answer now being made is for."""

    language: str = ENGLISH
    timezone: str = "UTC"
    zone_is_chosen: bool = False  # else the browser's, and scripts follow it
    theme: str = "system"
    now_at: int = 0

    @property
    def zone(self) -> tzinfo:
        """The time zone that instants are shown in."""
        return _zone(self.timezone)

    @property
    def html_lang(self) -> str:
        """As the `lang` attribute wants it."""
        return HTML_LANG[self.language]


_DAY_MS = 86_400_000

READER: ContextVar[Reader] = ContextVar("reader", default=Reader())  # noqa: B039 - frozen


def wall_clock() -> int:
    """UTC epoch ms."""
    return time.time_ns() // 1_000_000


def set_reader(request: web.Request) -> Reader:
    """Find out who reads, from cookies and headers, for everything that is now formatted."""
    theme = request.cookies.get(THEME_COOKIE, "")
    chosen = request.cookies.get(CHOSEN_ZONE_COOKIE, "")
    zones = (
        chosen,
        request.cookies.get(TIME_ZONE_COOKIE, ""),
        request.app[SERVICES].settings.known.default_timezone or "",
    )
    reader = Reader(
        language=language_of(request),
        timezone=next((zone for zone in zones if zone in time_zones()), "UTC"),
        zone_is_chosen=chosen in time_zones(),
        theme=theme if theme in THEMES else "system",
        now_at=request.app[NOW](),
    )
    READER.set(reader)
    LANGUAGE.set(reader.language)
    return reader


@lru_cache(maxsize=1)
def time_zones() -> frozenset[str]:
    """Names of all time zones."""
    return frozenset(available_timezones())


def number(value: float) -> str:
    """A number with the reader's separators."""
    return str(format_decimal(value, locale=READER.get().language))


def short_number(value: float) -> str:
    """A number for an axis: from ten thousand on "25K", or 2.5万."""
    if value < 10_000:
        return number(value)
    language = READER.get().language
    return str(format_compact_decimal(value, locale=language, fraction_digits=1))


def tiny_number(value: float) -> str:
    """A number for a place with room for four characters: 999, 1.7k, 23k, 1.2M."""
    if value < 1_000:
        return number(value)
    for unit, letter in ((1e3, "k"), (1e6, "M"), (1e9, "G")):
        if value < 999.5 * unit:
            share = value / unit
            text = f"{share:.1f}" if share < 9.95 else f"{share:.0f}"
            return text.removesuffix(".0") + letter
    return "∞"


def percent(part: float, whole: float) -> str:
    """A share; never rounded up to 100 %, which would hide the one that failed."""
    if whole <= 0:
        return "–"
    share = part / whole
    if share < 1:
        share = min(share, 0.9999)
    return str(format_percent(share, "0.##%", locale=READER.get().language))


def duration(ms: float | None) -> str:
    """A length in its two largest units: 450 ms, 6.2 s, 1m 05s, 3h 20m, 5d 2h; 3 小时 20 分."""
    if ms is None:
        return "–"
    units = duration_units()
    if ms < 1000:
        return units["ms"] % {"n": round(ms)}
    seconds = ms / 1000
    if seconds < 10:
        return units["s"] % {"n": f"{seconds:.1f}"}
    if seconds < 60:
        return units["s"] % {"n": int(seconds)}
    minutes, hours = int(seconds // 60), int(seconds // 3600)
    if hours >= 48:
        return units["dh"] % {"first": hours // 24, "second": hours % 24}
    if hours:
        return units["hm"] % {"first": hours, "second": _second(minutes % 60)}
    return units["minutes"] % {"first": minutes, "second": _second(int(seconds) % 60)}


def duration_units() -> dict[str, str]:
    """How lengths are written in the reader's language, for scripts as well."""
    return {
        "ms": gettext("%(n)s ms"),
        "s": gettext("%(n)s s"),
        "minutes": gettext("%(first)sm %(second)ss"),
        "hm": gettext("%(first)sh %(second)sm"),
        "dh": gettext("%(first)sd %(second)sh"),
    }


def _second(value: int) -> str:
    """The smaller unit of two: 1h 05m, but 1 小时 5 分."""
    return str(value) if READER.get().language == CHINESE else f"{value:02}"


def length_in_words(ms: int) -> str:
    """A configured length, such as a timeout, in the largest unit that keeps it whole."""
    for unit_ms, text in (
        (86_400_000, gettext("%(n)s d")),
        (3_600_000, gettext("%(n)s h")),
        (60_000, gettext("%(n)s min")),
    ):
        if ms >= unit_ms and ms % unit_ms == 0:
            return text % {"n": ms // unit_ms}
    return gettext("%(n)s s") % {"n": f"{ms / 1000:g}"}


def iso(at: int) -> str:
    """For the `datetime` attribute; "" for a stored number that lies in no year from 1 to 9999."""
    if not is_instant(at):
        return ""
    moment = datetime.fromtimestamp(at / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def instant(at: int, pattern: str = "full") -> str:
    """An instant in the reader's zone; "–" for a stored number that lies in no year of ours."""
    if not MIN_INSTANT + _DAY_MS <= at <= MAX_INSTANT - _DAY_MS:  # zones shift it by hours
        return "–"
    reader = READER.get()
    return str(
        format_datetime(
            datetime.fromtimestamp(at / 1000, _zone(reader.timezone)),
            _PATTERNS[pattern][reader.language],
            locale=reader.language,
        )
    )


def local_date(at: int, timezone: str) -> str:
    """The date of an instant in a zone, "2026-10-01"."""
    return datetime.fromtimestamp(at / 1000, _zone(timezone)).date().isoformat()


@lru_cache(maxsize=1000)
def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
