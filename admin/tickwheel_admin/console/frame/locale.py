"""The locale of the request being answered: language, time zone, theme, and the time now."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from aiohttp import web

from tickwheel_admin.console.frame.i18n import LANGUAGE
from tickwheel_admin.web.i18n import ENGLISH, LANGUAGE_TAGS, is_chinese, language_of
from tickwheel_admin.web.keys import SERVICES

THEMES = ("light", "dark", "system")
THEME_COOKIE = "tickwheel_theme"
TIME_ZONE_COOKIE = "tickwheel_time_zone"  # set by the page's script, which knows the browser's zone
CHOSEN_ZONE_COOKIE = "tickwheel_chosen_zone"  # of a person who wants another one

NOW: web.AppKey[Callable[[], int]] = web.AppKey("console_now")
"""UTC epoch ms for what pages show beside instants; tests stop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLocale:
    """Language, time zone, theme and time that an answer is written with."""

    language: str = ENGLISH
    timezone: str = "UTC"
    zone_is_chosen: bool = False  # else the browser's, and scripts follow it
    theme: str = "system"
    now_at: int = 0

    @property
    def zone(self) -> tzinfo:
        """The time zone that instants are shown in."""
        return zone_of(self.timezone)

    @property
    def html_lang(self) -> str:
        """As the `lang` attribute wants it."""
        return LANGUAGE_TAGS[self.language]

    @property
    def is_chinese(self) -> bool:
        """Whether texts are in Chinese characters, simplified or traditional."""
        return is_chinese(self.language)

    @property
    def pattern_language(self) -> str:
        """The key of patterns of dates, which are the same in all of Chinese: `en` or `zh`."""
        return "zh" if self.is_chinese else "en"


REQUEST_LOCALE: ContextVar[RequestLocale] = ContextVar(
    "request_locale",
    default=RequestLocale(),  # noqa: B039 - frozen
)


def wall_clock() -> int:
    """UTC epoch ms."""
    return time.time_ns() // 1_000_000


def set_locale(request: web.Request) -> RequestLocale:
    """Read it from cookies and headers, for everything that is formatted from now on."""
    theme = request.cookies.get(THEME_COOKIE, "")
    chosen = request.cookies.get(CHOSEN_ZONE_COOKIE, "")
    zones = (
        chosen,
        request.cookies.get(TIME_ZONE_COOKIE, ""),
        request.app[SERVICES].settings.known.default_timezone or "",
    )
    locale = RequestLocale(
        language=language_of(request),
        timezone=next((zone for zone in zones if zone in time_zones()), "UTC"),
        zone_is_chosen=chosen in time_zones(),
        theme=theme if theme in THEMES else "system",
        now_at=request.app[NOW](),
    )
    REQUEST_LOCALE.set(locale)
    LANGUAGE.set(locale.language)
    return locale


@lru_cache(maxsize=1)
def time_zones() -> frozenset[str]:
    """Names of all time zones."""
    return frozenset(available_timezones())


@lru_cache(maxsize=1000)
def zone_of(name: str) -> tzinfo:
    """A time zone by its name; UTC for what is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
