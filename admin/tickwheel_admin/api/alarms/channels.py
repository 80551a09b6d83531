"""/api/v1/alarm-channels: how people are told. Secrets are only ever written."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.alarms.shapes import (
    ChannelChangeJson,
    ChannelJson,
    NewChannelJson,
    TriedChannelJson,
)
from tickwheel_admin.api.answers import NewVersionJson, PageJson, answer, page_view
from tickwheel_admin.api.inputs import (
    ID,
    PAGING,
    body_fields,
    no_fields,
    page_of,
    path_id,
    query_fields,
    taken_id,
)
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.engine.alarms.ports import Delivered
from tickwheel_admin.services.alarms.channels import ChannelItem
from tickwheel_admin.web.alarms import try_channel
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import boolean
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = "/api/v1/alarm-channels"
_ENABLED = boolean("enabled", "Whether it sends.", required=True)
_EDIT_CONFLICTS = (
    "alarm_channel.changed",
    "alarm_channel.name_taken",
    "alarm_channel.named_by_jobs",
    "secret_key.missing",
)
_ONE = f"{_ALL}/{{channel_id:{ID}}}"


@routes.get(
    _ALL,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    query=PAGING,
    answers=PageJson[ChannelJson],
)
async def list_channels(request: web.Request) -> web.Response:
    """A page of channels, by name."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].alarm_channels.page(
        actor_of(request), cursor=cursor, limit=limit
    )
    return answer(page_view(page, channel_view))


@routes.post(
    _ALL,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=NewChannelJson,
    answers=NewVersionJson,
    status=201,
    conflicts=("alarm_channel.name_taken", "alarm_channel.too_many", "secret_key.missing"),
)
async def create_channel(request: web.Request) -> web.Response:
    """Add a channel."""
    channel_id = await request.app[SERVICES].alarm_channels.create(
        actor_of(request), await read_json(request)
    )
    return answer({"id": channel_id, "version": 1}, status=201, location=f"{_ALL}/{channel_id}")


@routes.get(_ONE, permission=Permission.ADMINISTER, api=True, on_all=True, answers=ChannelJson)
async def get_channel(request: web.Request) -> web.Response:
    """One channel."""
    item = await request.app[SERVICES].alarm_channels.get(
        actor_of(request), path_id(request, "channel_id")
    )
    return answer(channel_view(item))


@routes.put(
    _ONE,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=ChannelChangeJson,
    answers=NewVersionJson,
    conflicts=_EDIT_CONFLICTS,
)
async def update_channel(request: web.Request) -> web.Response:
    """Secrets that are left out stay; null forgets one."""
    channel_id = path_id(request, "channel_id")
    raw = await read_json(request)
    version = taken_id(raw, "version")
    version = await request.app[SERVICES].alarm_channels.update(
        actor_of(request), channel_id, raw, version=version
    )
    return answer({"id": channel_id, "version": version})


@routes.put(
    f"{_ONE}/enabled",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=(_ENABLED,),
    answers=NoContent,
)
async def set_enabled(request: web.Request) -> web.Response:
    """Switch a channel on or off."""
    fields = await body_fields(request)
    enabled = _ENABLED.of(fields)
    raise_if_any(fields.problems)
    await request.app[SERVICES].alarm_channels.set_enabled(
        actor_of(request), path_id(request, "channel_id"), enabled=enabled
    )
    return web.Response(status=204)


@routes.post(
    f"{_ONE}/test",
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    body=(),
    answers=TriedChannelJson,
    conflicts=("channel.no_sender", "channel.unreadable"),
)
async def send_test(request: web.Request) -> web.Response:
    """Send a message, and wait for what the provider says: at most 30 s."""
    await no_fields(request)
    result = await try_channel(request, path_id(request, "channel_id"))
    if isinstance(result, Delivered):
        return answer({"delivered": True, "answer": result.answer, "error": None})
    return answer({"delivered": False, "answer": None, "error": result.why})


@routes.delete(
    _ONE,
    permission=Permission.ADMINISTER,
    api=True,
    on_all=True,
    answers=NoContent,
    conflicts=("alarm_channel.in_use", "alarm_channel.named_by_jobs"),
)
async def delete_channel(request: web.Request) -> web.Response:
    """Delete a channel with its secrets."""
    await request.app[SERVICES].alarm_channels.delete(
        actor_of(request), path_id(request, "channel_id")
    )
    return web.Response(status=204)


def channel_view(item: ChannelItem) -> ChannelJson:
    return {
        "id": item.id,
        "version": item.version,
        "name": item.name,
        "kind": item.kind,
        "language": item.language,
        "time_zone": item.time_zone,
        "per_minute": item.per_minute,
        "enabled": item.enabled,
        "settings": dict(item.settings),
        "secrets_set": sorted(item.secret_names),
        "readable": item.is_readable,
    }
