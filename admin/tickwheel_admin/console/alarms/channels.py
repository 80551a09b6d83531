"""Channels: how people are told; made, tried, switched off and deleted by administrators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.rendering import done_or_back, go_to, render
from tickwheel_admin.console.frame.units import problems_at_fields, whole_number
from tickwheel_admin.console.frame.zone_choices import zone_choices
from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.domain.alarms.channel_fields import CHANNEL_KINDS
from tickwheel_admin.domain.errors import Conflict, InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.alarms.channels import ChannelItem
from tickwheel_admin.web.alarms import try_channel
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.i18n import LANGUAGES
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

CHANNELS = "/alarms/channels"
CHANNEL = f"{CHANNELS}/{{channel_id:[0-9]{{1,18}}}}"
_COMMON = ("name", "language", "time_zone")
REMOVED = "remove_"  # before the name of a secret: a ticked box forgets it

routes = Routes()


@routes.get(CHANNELS, permission=Permission.ADMINISTER, on_all=True)
async def list_channels(request: web.Request) -> web.Response:
    items = await request.app[SERVICES].alarm_channels.list(actor_of(request))
    return await render(request, "alarms/channels.html", {"channels": items})


@routes.get(f"{CHANNELS}/new", permission=Permission.ADMINISTER, on_all=True)
async def show_new(request: web.Request) -> web.Response:
    kind = request.query.get("kind", "")
    known = kind in {each.value for each in ChannelKind}
    return await _form(request, kind=ChannelKind(kind) if known else None)


@routes.post(f"{CHANNELS}/new", permission=Permission.ADMINISTER, on_all=True)
async def create_channel(request: web.Request) -> web.Response:
    form = await read_form(request)
    kind = form.get("kind", "")
    if kind not in {each.value for each in ChannelKind}:
        return await _form(request, kind=None)
    try:
        channel_id = await request.app[SERVICES].alarm_channels.create(
            actor_of(request), _raw(ChannelKind(kind), form)
        )
    except (InvalidInput, Conflict) as error:
        return await _form(request, kind=ChannelKind(kind), typed=form, error=error)
    response = go_to(request, f"{CHANNELS}/{channel_id}")
    set_flash(response, "alarm.channel_created")
    return response


@routes.get(CHANNEL, permission=Permission.ADMINISTER, on_all=True)
async def show_channel(request: web.Request) -> web.Response:
    item = await _item(request)
    return await _form(request, kind=item.kind, item=item)


@routes.post(CHANNEL, permission=Permission.ADMINISTER, on_all=True)
async def save_channel(request: web.Request) -> web.Response:
    item = await _item(request)
    form = await read_form(request)
    try:
        await request.app[SERVICES].alarm_channels.update(
            actor_of(request),
            item.id,
            _raw(item.kind, form, item=item),
            version=whole_number(form.get("version")) or 0,
        )
    except (InvalidInput, Conflict) as error:
        return await _form(request, kind=item.kind, item=item, typed=form, error=error)
    response = go_to(request, f"{CHANNELS}/{item.id}")
    set_flash(response, "alarm.channel_saved")
    return response


@routes.post(f"{CHANNEL}/test", permission=Permission.ADMINISTER, on_all=True)
async def send_test(request: web.Request) -> web.Response:
    """Send a message by the channel as it is saved, and show what came back."""
    item = await _item(request)
    try:
        answer = await try_channel(request, item.id)
    except Conflict as error:
        return await render(
            request, "alarms/channel_test.html", {"item": item, "error": error}, block="dialog"
        )
    return await render(
        request,
        "alarms/channel_test.html",
        {"item": item, "answer": answer, "error": None},
        block="dialog",
    )


@routes.post(f"{CHANNEL}/switch", permission=Permission.ADMINISTER, on_all=True)
async def switch_channel(request: web.Request) -> web.Response:
    enabled = (await read_form(request)).get("enabled") == "on"
    channel_id = _id(request)
    await request.app[SERVICES].alarm_channels.set_enabled(
        actor_of(request), channel_id, enabled=enabled
    )
    code = "alarm.channel_on" if enabled else "alarm.channel_off"
    return done_or_back(request, f"{CHANNELS}/{channel_id}", code, topics=("alarms",))


@routes.get(f"{CHANNEL}/delete", permission=Permission.ADMINISTER, on_all=True)
async def ask_delete(request: web.Request) -> web.Response:
    item = await _item(request)
    return await render(request, "alarms/channel_delete.html", {"item": item, "conflict": None})


@routes.post(f"{CHANNEL}/delete", permission=Permission.ADMINISTER, on_all=True)
async def delete_channel(request: web.Request) -> web.Response:
    item = await _item(request)
    try:
        await request.app[SERVICES].alarm_channels.delete(actor_of(request), item.id)
    except Conflict as error:
        return await render(
            request,
            "alarms/channel_delete.html",
            {"item": item, "conflict": error},
            status=error.status,
            block="dialog",
        )
    response = go_to(request, CHANNELS)
    set_flash(response, "alarm.channel_deleted")
    return response


def _raw(
    kind: ChannelKind, form: Mapping[str, str], *, item: ChannelItem | None = None
) -> dict[str, Any]:
    """What was typed, as programs send it. A secret that is left empty stays as it is."""
    settings: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    for each in CHANNEL_KINDS[kind].fields:
        value = form.get(each.name, "").replace("\r\n", "\n").strip()
        if not each.is_secret:
            if value:
                settings[each.name] = value
        elif value:
            secrets[each.name] = value
        elif item is not None and form.get(f"{REMOVED}{each.name}"):
            secrets[each.name] = None
    raw: dict[str, Any] = {name: form.get(name, "").strip() for name in _COMMON}
    if per_minute := form.get("per_minute", "").strip():
        raw["per_minute"] = whole_number(per_minute) or per_minute
    return raw | {"kind": kind.value, "settings": settings, "secrets": secrets}


async def _form(
    request: web.Request,
    *,
    kind: ChannelKind | None,
    item: ChannelItem | None = None,
    typed: Mapping[str, str] | None = None,
    error: InvalidInput | Conflict | None = None,
) -> web.Response:
    problems: Sequence[Problem] = () if error is None else problems_at_fields(error)
    values = _values(item) if typed is None else typed
    return await render(
        request,
        "alarms/channel_form.html",
        {
            "item": item,
            "kind": kind,
            "spec": None if kind is None else CHANNEL_KINDS[kind],
            "kinds": list(CHANNEL_KINDS.values()),
            "values": values,
            "languages_of_messages": LANGUAGES,
            "zones": zone_choices(values.get("time_zone") or None),
            "problems": {_place(problem): problem for problem in reversed(problems)},
            "conflict": error if isinstance(error, Conflict) and not problems else None,
        },
        status=200 if error is None else error.status,
        block=None if error is None else "form",
    )


def _place(problem: Problem) -> str:
    """The field of the form that a problem belongs to: secrets and settings share it."""
    return problem.field.removeprefix("settings.").removeprefix("secrets.")


def _values(item: ChannelItem | None) -> dict[str, str]:
    if item is None:
        return {}
    return {
        **item.settings,
        "name": item.name,
        "language": item.language,
        "time_zone": item.time_zone,
        "per_minute": str(item.per_minute),
    }


async def _item(request: web.Request) -> ChannelItem:
    return await request.app[SERVICES].alarm_channels.get(actor_of(request), _id(request))


def _id(request: web.Request) -> int:
    return int(request.match_info["channel_id"])
