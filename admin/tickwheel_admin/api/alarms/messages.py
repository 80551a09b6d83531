"""/api/v1/alarm-messages: the outbox."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.alarms.shapes import MessageDetailJson, MessageJson
from tickwheel_admin.api.answers import PageJson, answer, instant, page_view
from tickwheel_admin.api.inputs import (
    ID,
    PAGING,
    no_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.domain.alarms.notification import NotificationState
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.alarms.deliveries import NotificationDetail, NotificationView
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import optional_id, optional_member
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/alarm-messages"
_STATE = optional_member("state", "Messages in this state.", NotificationState)
_CHANNEL = optional_id("channel_id", "Messages of this channel.")
_ONE = f"{_ALL}/{{message_id:{ID}}}"


@routes.get(
    _ALL,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    query=(_STATE, _CHANNEL, *PAGING),
    answers=PageJson[MessageJson],
)
async def list_messages(request: web.Request) -> web.Response:
    """A page of messages, newest first."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    state = _STATE.of(fields)
    states = () if state is None else (state,)
    channel_id = _CHANNEL.of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].deliveries.page(
        actor_of(request), channel_id=channel_id, states=states, cursor=cursor, limit=limit
    )
    return answer(page_view(page, message_view))


@routes.get(
    _ONE,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    query=PAGING,
    answers=MessageDetailJson,
)
async def get_message(request: web.Request) -> web.Response:
    """One message, with a page of what it covers."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    detail = await request.app[SERVICES].deliveries.get(
        actor_of(request), path_id(request, "message_id"), cursor=cursor, limit=limit
    )
    return answer(_detail_view(detail))


@routes.post(
    f"{_ONE}/send-again",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=(),
    answers=NoContent,
    conflicts=("notification.not_dead",),
)
async def send_again(request: web.Request) -> web.Response:
    """Send a message that was given up."""
    await no_fields(request)
    await request.app[SERVICES].deliveries.send_again(
        actor_of(request), path_id(request, "message_id")
    )
    return web.Response(status=204)


def message_view(view: NotificationView) -> MessageJson:
    each = view.notification
    return {
        "id": each.id,
        "message_id": each.message_id,
        "channel_id": each.channel_id,
        "channel_name": view.channel_name,
        "state": each.state,
        "alarms": each.items,
        "attempts": each.attempts,
        "written_at": instant(each.written_at),
        "due_at": instant(each.due_at),
        "ended_at": instant(each.ended_at),
        "answer": each.answer,
        "error": each.error,
    }


def _detail_view(detail: NotificationDetail) -> MessageDetailJson:
    return {
        **message_view(detail.view),
        "alarms": detail.total,
        "covers": [
            {
                "alarm_id": each.alarm_id,
                "occasion": each.occasion,
                "kind": None if (of := detail.alarms.get(each.alarm_id)) is None else of.kind,
                "job_id": None if of is None else of.job_id,
                "executor_id": None if of is None else of.executor_id,
                "run_id": None if of is None else of.run_id,
            }
            for each in detail.items
        ],
        "next": detail.next,
    }
