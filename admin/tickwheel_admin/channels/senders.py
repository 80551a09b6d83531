"""Every channel behind one port: what the delivery of alarms and "Send a test" call."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog
from aiohttp.abc import AbstractResolver

from tickwheel_admin.channels.apprise.sender import COMMAND, AppriseSender
from tickwheel_admin.channels.chat.bot import ChatSender
from tickwheel_admin.channels.chat.dingtalk import DingTalk
from tickwheel_admin.channels.chat.feishu import Feishu
from tickwheel_admin.channels.chat.slack import Slack
from tickwheel_admin.channels.chat.teams import Teams
from tickwheel_admin.channels.chat.wecom import WeCom
from tickwheel_admin.channels.email.sender import EmailSender
from tickwheel_admin.channels.http import ChannelHttp
from tickwheel_admin.channels.webhook.sender import WebhookSender
from tickwheel_admin.domain.alarms.channel import Channel, ChannelKind
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.domain.input.alarm_channel import missing_fields
from tickwheel_admin.domain.network_guard import AddressGuard
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered
from tickwheel_admin.web.guarded_resolver import GuardedResolver

log = structlog.get_logger(__name__)

SEND_SECONDS = 30.0  # for one message, whatever happens


class _Sender(Protocol):
    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered: ...


class Channels:
    """Sends messages by the channel of each kind; the delivery's `ChannelSender`.

    Args:
        guard: which addresses may be called; of `alarm_guard`.
        now: the current time in UTC ms, for signatures.
        resolver: of names, before the guard; None: the system's.
        tls: whom to trust; None: the system's authorities.
        apprise: the command that sends by Apprise.
    """

    def __init__(
        self,
        guard: AddressGuard,
        *,
        now: Callable[[], int],
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
        apprise: Sequence[str] = COMMAND,
    ) -> None:
        names = GuardedResolver(guard, resolver)
        self._http = ChannelHttp(guard, names, tls=tls)
        self._senders: Mapping[ChannelKind, _Sender] = {
            ChannelKind.EMAIL: EmailSender(guard, names, tls=tls),
            ChannelKind.WEBHOOK: WebhookSender(self._http, now=now),
            ChannelKind.DINGTALK: ChatSender(self._http, DingTalk(), now=now),
            ChannelKind.WECOM: ChatSender(self._http, WeCom(), now=now),
            ChannelKind.FEISHU: ChatSender(self._http, Feishu(), now=now),
            ChannelKind.SLACK: ChatSender(self._http, Slack(), now=now),
            ChannelKind.TEAMS: ChatSender(self._http, Teams(), now=now),
            ChannelKind.APPRISE: AppriseSender(guard, command=apprise),
        }

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        """Send one message within 30 seconds. Raises nothing but CancelledError."""
        if missing := missing_fields(channel.kind, channel.settings, channel.secrets):
            why = f"The channel lacks {', '.join(missing)}: edit it."
            return Undelivered(why=why, permanent=True)
        try:
            async with asyncio.timeout(SEND_SECONDS):
                return await self._senders[channel.kind].send(channel, message)
        except TimeoutError:
            return Undelivered(why=f"It took longer than {SEND_SECONDS:.0f} s.")
        except Exception as error:  # noqa: BLE001 - a defect here must not end the delivery of others
            # Not its text: it may hold the address with its token.
            log.error(
                "channel.send_failed",
                channel_id=channel.id,
                kind=channel.kind.value,
                error=type(error).__name__,
            )
            return Undelivered(why=f"Tickwheel could not send it: {type(error).__name__}.")

    async def close(self) -> None:
        """End connections."""
        await self._http.close()
