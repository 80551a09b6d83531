"""How numbers, lengths and instants are written in the locale of the request."""

from __future__ import annotations

from datetime import UTC, datetime

from babel.dates import format_datetime
from babel.numbers import format_compact_decimal, format_decimal, format_percent

from tickwheel_admin.console.frame.i18n import gettext
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, zone_of
from tickwheel_admin.domain.fields import MAX_INSTANT, MIN_INSTANT, is_instant

_DAY_MS = 86_400_000

# Patterns by name; the scripts that show instants in the browser's zone use the same forms.
_PATTERNS = {
    "time": {"en": "HH:mm:ss", "zh": "HH:mm:ss"},
    "minute": {"en": "HH:mm", "zh": "HH:mm"},
    "short": {"en": "MMM d, HH:mm", "zh": "M月d日 HH:mm"},
    "full": {"en": "MMM d, y, HH:mm:ss", "zh": "y年M月d日 HH:mm:ss"},
    "weekday": {"en": "EEE, MMM d, HH:mm:ss", "zh": "M月d日 EEE HH:mm:ss"},
    "day": {"en": "EEEE, d MMMM", "zh": "M月d日 EEEE"},
    "date": {"en": "MMM d", "zh": "M月d日"},
}


def number(value: float) -> str:
    """A number with the reader's separators."""
    return str(format_decimal(value, locale=REQUEST_LOCALE.get().language))


def short_number(value: float) -> str:
    """A number for an axis: from ten thousand on "25K", or 2.5万."""
    if value < 10_000:
        return number(value)
    language = REQUEST_LOCALE.get().language
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
    return str(format_percent(share, "0.##%", locale=REQUEST_LOCALE.get().language))


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
    return str(value) if REQUEST_LOCALE.get().is_chinese else f"{value:02}"


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
    locale = REQUEST_LOCALE.get()
    return str(
        format_datetime(
            datetime.fromtimestamp(at / 1000, zone_of(locale.timezone)),
            _PATTERNS[pattern][locale.pattern_language],
            locale=locale.language,
        )
    )


def local_date(at: int, timezone: str) -> str:
    """The date of an instant in a zone, "2026-10-01"."""
    return datetime.fromtimestamp(at / 1000, zone_of(timezone)).date().isoformat()
