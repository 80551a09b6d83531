"""Which admins share the database, as seen a moment ago: shown on every page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from tickwheel_admin.web.identity import actor_or_none
from tickwheel_admin.web.keys import SERVICES

if TYPE_CHECKING:
    from tickwheel_admin.services.overview.service import AdminView

REFRESH_SECONDS = 2


class AdminList:
    """The admins, for all pages together."""

    def __init__(self) -> None:
        self.known: Sequence[AdminView] = ()
        self._refresh_at = 0.0

    async def refresh(self, request: web.Request) -> None:
        """Look again when the last look is old."""
        actor = actor_or_none(request)
        now = time.monotonic()
        if actor is None or actor.must_change_password or now < self._refresh_at:
            return
        self._refresh_at = now + REFRESH_SECONDS  # before the await, so that one request looks
        self.known = await request.app[SERVICES].overview.admins()


ADMINS: web.AppKey[AdminList] = web.AppKey("admins")
