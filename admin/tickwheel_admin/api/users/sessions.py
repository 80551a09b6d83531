"""/api/v1/users/{user_id}/sessions"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import ID, path_id
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.delete(
    f"/api/v1/users/{{user_id:{ID}}}/sessions",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
)
async def end_sessions(request: web.Request) -> web.Response:
    ended = await request.app[SERVICES].users.end_sessions(
        actor_of(request), path_id(request, "user_id")
    )
    return answer({"ended": ended})
