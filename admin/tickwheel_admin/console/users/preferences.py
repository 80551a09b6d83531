"""A person's preferences in the cookies that every page is made by."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.locale import CHOSEN_ZONE_COOKIE, THEME_COOKIE
from tickwheel_admin.domain.users.preferences import Preferences
from tickwheel_admin.web.client import is_secure
from tickwheel_admin.web.i18n import LANGUAGE_COOKIE
from tickwheel_admin.web.keys import SERVICES

YEAR_SECONDS = 31_536_000


def mirror_preferences(
    request: web.Request, response: web.StreamResponse, preferences: Preferences
) -> None:
    """Let the pages of this browser follow the preferences; what is not chosen is its own."""
    _mirror(request, response, LANGUAGE_COOKIE, preferences.language)
    _mirror(request, response, THEME_COOKIE, preferences.theme)
    _mirror(request, response, CHOSEN_ZONE_COOKIE, preferences.timezone)


async def mirror_at_login(
    request: web.Request, response: web.StreamResponse, session_cookie: str
) -> None:
    """The same for whoever just logged in; a language or theme chosen before login stays theirs.

    A zone does not: it was chosen by whoever used the browser before.
    """
    services = request.app[SERVICES]
    session = await services.logins.session(session_cookie)
    if session is None:
        return
    preferences = await services.own_account.preferences(session.actor)
    if preferences.language is not None:
        _mirror(request, response, LANGUAGE_COOKIE, preferences.language)
    if preferences.theme is not None:
        _mirror(request, response, THEME_COOKIE, preferences.theme)
    _mirror(request, response, CHOSEN_ZONE_COOKIE, preferences.timezone)


def _mirror(
    request: web.Request, response: web.StreamResponse, name: str, value: str | None
) -> None:
    if value is None:
        response.del_cookie(name, path="/")
        return
    # Not hidden from scripts: the menus of language and theme set the same cookies.
    response.set_cookie(
        name, value, max_age=YEAR_SECONDS, path="/", samesite="Lax", secure=is_secure(request)
    )
