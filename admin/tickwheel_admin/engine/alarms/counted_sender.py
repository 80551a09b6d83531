"""A sender of messages that counts what came of them."""

from __future__ import annotations

from collections.abc import Callable

from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.engine.alarms.ports import ChannelSender, Delivered, Undelivered


class CountedSender:
    """Sends by another sender, and tells `count` "delivered" or "failed"."""

    def __init__(self, sender: ChannelSender, count: Callable[[str], None]) -> None:
        self._sender = sender
        self._count = count

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        """As the other one."""
        outcome = await self._sender.send(channel, message)
        self._count("delivered" if isinstance(outcome, Delivered) else "failed")
        return outcome
