"""What filter boxes suggest while somebody types a value."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.get("/filter-values.json", permission=Permission.VIEW)
async def suggest_values(request: web.Request) -> web.Response:
    """Up to 12 values of the key `key` for the text `text`, a list of texts."""
    key, text = request.query.get("key", ""), request.query.get("text", "")
    return web.json_response(
        await request.app[SERVICES].suggestions.values(actor_of(request), key, text)
    )
