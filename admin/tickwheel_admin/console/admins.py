"""Which admins share the database, as last seen: asked seldom, shown on every page."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from tickwheel_admin.web.identity import actor_or_none
from tickwheel_admin.web.keys import OVERVIEW

if TYPE_CHECKING:
    from tickwheel_admin.services.overview import AdminView

REFRESH_SECONDS = 15


class Admins:
    """The admins, for all pages and streams together."""

    def __init__(self) -> None:
        self.known: Sequence[AdminView] = ()
        self._refresh_at = 0.0

    @property
    def are_several(self) -> bool:
        """Whether changes may be made that this process does not hear of."""
        return sum(admin.live for admin in self.known) > 1

    async def refresh(self, request: web.Request) -> None:
        """Look again when the last look is old."""
        actor = actor_or_none(request)
        now = time.monotonic()
        if actor is None or actor.must_change_password or now < self._refresh_at:
            return
        self._refresh_at = now + REFRESH_SECONDS  # before the await, so that one request looks
        self.known = await request.app[OVERVIEW].admins()


ADMINS: web.AppKey[Admins] = web.AppKey("admins")
