"""What the bots of chat services have in common: a URL with a token, and an answer to judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from tickwheel_admin.channels.http import ChannelHttp, HttpReply
from tickwheel_admin.channels.masking import told
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.channels.text.letter import Letter
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered


@dataclass(frozen=True, slots=True, kw_only=True)
class BotCall:
    """What is posted to a bot."""

    url: str = field(repr=False)
    body: Any = field(repr=False)  # JSON


class ChatDialect(Protocol):
    """One chat service."""

    def call(self, channel: Channel, letter: Letter, *, now: int) -> BotCall:
        """The call for a letter; `now` is UTC ms, for signatures."""
        ...

    def judge(self, channel: Channel, reply: HttpReply) -> Delivered | Undelivered:
        """What an answer means whose status is no refusal."""
        ...


class ChatSender:
    """Sends messages to bots of one service.

    Args:
        now: the current time in UTC ms.
    """

    def __init__(self, http: ChannelHttp, dialect: ChatDialect, *, now: Callable[[], int]) -> None:
        self._http = http
        self._dialect = dialect
        self._now = now

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        """Send one message."""
        call = self._dialect.call(channel, compose(channel, message), now=self._now())
        reply = await self._http.post(channel, call.url, msgspec.json.encode(call.body))
        if isinstance(reply, Undelivered):
            return reply
        return self._dialect.judge(channel, reply)


def size_in_bytes(body: Any) -> int:
    """Of JSON in UTF-8."""
    return len(msgspec.json.encode(body))


def judge_by_code(
    channel: Channel,
    reply: HttpReply,
    *,
    code_field: str,
    text_field: str,
    passing: dict[int, float],
) -> Delivered | Undelivered:
    """Services that answer 200 to everything, and say in JSON what they did.

    Args:
        code_field: whose value 0 means that the message was taken.
        passing: codes of refusals that pass, with the seconds until then; others are permanent.
    """
    try:
        answer = json.loads(reply.body)
        code = int(answer[code_field])
    except (ValueError, KeyError, TypeError):
        # No answer of the service: a proxy, or a page. Nobody knows whether it came through.
        return Undelivered(why=told(f"Answered something else: {reply.text}", channel))
    said = told(f"{code} {answer.get(text_field, '')}", channel)
    if code == 0:
        return Delivered(answer=said)
    if code in passing:
        return Undelivered(why=said, retry_after_seconds=passing[code] or None)
    return Undelivered(why=said, permanent=True)
