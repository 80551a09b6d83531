"""DingTalk's custom robots.

Message types, signature, limit of 20 a minute: https://open.dingtalk.com/document/robots/custom-robot-access
and https://open.dingtalk.com/document/orgapp/custom-bot-to-send-group-chat-messages. A robot that
sends more is silent for ten minutes. A body may have 20,000 bytes. `at` is sent without anybody, so
that no text of ours calls anybody.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from yarl import URL

from tickwheel_admin.channels.chat.bot import BotCall, judge_by_code, size_in_bytes
from tickwheel_admin.channels.chat.markdown import markdown
from tickwheel_admin.channels.http import HttpReply
from tickwheel_admin.channels.text.cleaning import lookalike
from tickwheel_admin.channels.text.letter import Letter, fitted
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

MAX_BYTES = 18_000
# Too many messages, in the codes of several versions of the API: silent for ten minutes.
_TOO_FAST = (130101, 302033, 410100, 660026, 90030)
_PASSING = {-1: 0.0, **dict.fromkeys(_TOO_FAST, 600.0)}


class DingTalk:
    """https://oapi.dingtalk.com/robot/send?access_token=…"""

    def call(self, channel: Channel, letter: Letter, *, now: int) -> BotCall:
        url = channel.secrets["url"]
        if secret := channel.secrets.get("secret"):
            url = str(URL(url).update_query(timestamp=str(now), sign=sign(secret, now)))
        return BotCall(url=url, body=fitted(letter, _message, size=size_in_bytes, limit=MAX_BYTES))

    def judge(self, channel: Channel, reply: HttpReply) -> Delivered | Undelivered:
        return judge_by_code(
            channel, reply, code_field="errcode", text_field="errmsg", passing=_PASSING
        )


def sign(secret: str, now: int) -> str:
    """The signature of a moment (UTC ms); it holds for an hour."""
    content = f"{now}\n{secret}".encode()
    return base64.b64encode(hmac.new(secret.encode(), content, hashlib.sha256).digest()).decode()


def _message(letter: Letter) -> dict[str, object]:
    return {
        "msgtype": "markdown",
        "markdown": {"title": lookalike(letter.subject), "text": markdown(letter)},
        "at": {"isAtAll": False},
    }
