"""WeCom's group robots.

Message types, at most 4,096 bytes of Markdown, 20 messages a minute, `<@userid>` in the text calls
people: https://developer.work.weixin.qq.com/document/path/91770. Codes of refusals:
https://developer.work.weixin.qq.com/document/path/90313.
"""

from __future__ import annotations

from typing import Any

from tickwheel_admin.channels.chat.bot import BotCall, judge_by_code
from tickwheel_admin.channels.chat.markdown import markdown
from tickwheel_admin.channels.http import HttpReply
from tickwheel_admin.channels.text.letter import Letter, fitted
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

MAX_BYTES = 4_096  # of the text, in UTF-8
# Busy, too many in a minute, too many at once.
_PASSING = {-1: 0.0, 45009: 60.0, 45033: 10.0}


class WeCom:
    """https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=…"""

    def call(self, channel: Channel, letter: Letter, *, now: int) -> BotCall:
        return BotCall(
            url=channel.secrets["url"],
            body=fitted(letter, _message, size=_text_bytes, limit=MAX_BYTES),
        )

    def judge(self, channel: Channel, reply: HttpReply) -> Delivered | Undelivered:
        return judge_by_code(
            channel, reply, code_field="errcode", text_field="errmsg", passing=_PASSING
        )


def _message(letter: Letter) -> dict[str, Any]:
    return {"msgtype": "markdown", "markdown": {"content": markdown(letter)}}


def _text_bytes(body: dict[str, Any]) -> int:
    return len(body["markdown"]["content"].encode())
