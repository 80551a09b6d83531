"""Sends messages to webhooks: each answer with a status of 200 to 299 has taken the message."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tickwheel_admin.channels.http import ChannelHttp
from tickwheel_admin.channels.masking import told
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.channels.webhook.payload import payload
from tickwheel_admin.channels.webhook.signature import signed_headers
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.channel_values import header_items
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered


class WebhookSender:
    """Args: now: the current time in UTC ms, which is signed."""

    def __init__(self, http: ChannelHttp, *, now: Callable[[], int]) -> None:
        self._http = http
        self._now = now

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        """Send one message."""
        body = msgspec.json.encode(payload(message, compose(channel, message)))
        try:
            headers = {
                **header_items(channel.secrets.get("headers", "")),
                **signed_headers(
                    message.id, body, secret=channel.secrets.get("secret", ""), now=self._now()
                ),
            }
        except ValueError:
            return Undelivered(why="The signing key cannot be read.", permanent=True)
        reply = await self._http.post(channel, channel.settings["url"], body, headers)
        if isinstance(reply, Undelivered):
            return reply
        return Delivered(answer=told(f"{reply.status} {reply.text}", channel))
