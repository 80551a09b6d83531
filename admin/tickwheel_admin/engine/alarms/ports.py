"""What the delivery of alarms needs of the channels; `channels` and tests have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.message import AlarmMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The provider took the message."""

    answer: str = ""  # what it said, for people; at most 500 characters, no secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """The provider refused the message, or nobody knows whether it came through."""

    why: str  # English, for people; at most 500 characters, no secrets
    retry_after_seconds: float | None = None  # the provider wants no message before that
    permanent: bool = False  # trying again is of no use: wrong address, wrong token


class ChannelSender(Protocol):
    """Sends one message; the caller decides about further attempts."""

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        """Send within 30 seconds. Raises nothing but CancelledError."""
        ...
