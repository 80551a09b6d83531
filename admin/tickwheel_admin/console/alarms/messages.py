"""Messages of the outbox: what was told by which channel, what was not, and why."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.domain.alarms.notification import NotificationState
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

PER_PAGE = 50
MESSAGE = "/alarms/messages/{message_id:[0-9]{1,18}}"

routes = Routes()


@routes.get("/alarms/messages", permission=Permission.ADMINISTER, on_all=True)
async def list_messages(request: web.Request) -> web.Response:
    state = request.query.get("state", "")
    known = state in {each.value for each in NotificationState}
    page = await request.app[SERVICES].deliveries.page(
        actor_of(request),
        channel_id=whole_number(request.query.get("channel")),
        states=(NotificationState(state),) if known else (),
        cursor=request.query.get("cursor"),
        limit=PER_PAGE,
    )
    return await render(
        request,
        "alarms/messages.html",
        {
            "items": page.items,
            "next_cursor": page.next,
            "state": state if known else "",
            "channel_id": whole_number(request.query.get("channel")),
            "channels": await request.app[SERVICES].alarm_channels.names(actor_of(request)),
        },
    )


@routes.get(MESSAGE, permission=Permission.VIEW)
async def show_message(request: web.Request) -> web.Response:
    """Messages lead here: whoever reads one sees what it tells of their executors."""
    detail = await request.app[SERVICES].deliveries.get(
        actor_of(request), _id(request), cursor=request.query.get("cursor")
    )
    return await render(request, "alarms/message.html", {"detail": detail})


@routes.post(f"{MESSAGE}/send-again", permission=Permission.ADMINISTER, on_all=True)
async def send_again(request: web.Request) -> web.Response:
    await request.app[SERVICES].deliveries.send_again(actor_of(request), _id(request))
    address = f"/alarms/messages/{_id(request)}"
    return done_or_back(request, address, "alarm.message_again", topics=("alarms",))


def _id(request: web.Request) -> int:
    return int(request.match_info["message_id"])
