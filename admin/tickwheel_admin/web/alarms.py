"""Trying a channel of alarms: what the console and the API share."""

from __future__ import annotations

import secrets
import time

from aiohttp import web

from tickwheel_admin.domain.alarms.trial import trial_message
from tickwheel_admin.domain.errors import Conflict
from tickwheel_admin.engine.alarms.ports import ChannelSender, Delivered, Undelivered
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, SERVICES

ALARM_SENDER: web.AppKey[ChannelSender] = web.AppKey("alarm_sender")


async def try_channel(request: web.Request, channel_id: int) -> Delivered | Undelivered:
    """Send a message by a channel, and wait for what its provider says: at most 30 s.

    Raises:
        NotFound: there is no such channel.
        Conflict: channel.unreadable; channel.no_sender, where only pages are served.
    """
    sender = request.app.get(ALARM_SENDER)
    if sender is None:
        raise Conflict("channel.no_sender", "This process serves pages and sends no messages.")
    services, actor = request.app[SERVICES], actor_of(request)
    channel = await services.alarm_channels.to_send(actor, channel_id)
    config = request.app[CONFIG]
    message = trial_message(
        f"test-{secrets.token_hex(8)}",
        installation=services.settings.known.instance_name or config.console_url,
        link=f"{config.console_url}/alarms/channels/{channel_id}",
        now=time.time_ns() // 1_000_000,
        by=actor.name,
    )
    return await sender.send(channel, message)
