"""Custom bots of Feishu and Lark: cards whose texts are all `plain_text`, which has no markup.

Cards, signature, at most 20 KB, 100 messages a minute and 5 a second, codes of refusals:
https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot; parts of cards:
https://open.feishu.cn/document/common-capabilities/message-card/message-cards-content/plain-text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from tickwheel_admin.channels.chat.bot import BotCall, judge_by_code, size_in_bytes
from tickwheel_admin.channels.http import HttpReply
from tickwheel_admin.channels.text.letter import Letter, LetterLink, LetterSection, Tone, fitted
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

MAX_BYTES = 18_000
# Too many messages; 9499 is said of that as well as of bodies that cannot be read.
_PASSING = {11232: 60.0, 9499: 60.0, 11233: 60.0}
_COLOURS = {
    Tone.BAD: "red",
    Tone.WARNING: "orange",
    Tone.GOOD: "green",
    Tone.NEUTRAL: "blue",
}


class Feishu:
    """https://open.feishu.cn/open-apis/bot/v2/hook/…, https://open.larksuite.com/…"""

    def call(self, channel: Channel, letter: Letter, *, now: int) -> BotCall:
        body = fitted(letter, _message, size=size_in_bytes, limit=MAX_BYTES)
        if secret := channel.secrets.get("secret"):
            body = {"timestamp": str(now // 1_000), "sign": sign(secret, now), **body}
        return BotCall(url=channel.secrets["url"], body=body)

    def judge(self, channel: Channel, reply: HttpReply) -> Delivered | Undelivered:
        # Older versions answer {"StatusCode": 0, "StatusMessage": "success"} and nothing else.
        old = _is_old_answer(reply)
        return judge_by_code(
            channel,
            reply,
            code_field="StatusCode" if old else "code",
            text_field="StatusMessage" if old else "msg",
            passing=_PASSING,
        )


def sign(secret: str, now: int) -> str:
    """The signature of a moment (UTC ms): here the text is the key, and nothing is signed."""
    key = f"{now // 1_000}\n{secret}".encode()
    return base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode()


def _is_old_answer(reply: HttpReply) -> bool:
    try:
        answer = json.loads(reply.body)
    except ValueError:
        return False
    return isinstance(answer, dict) and "code" not in answer and "StatusCode" in answer


def _message(letter: Letter) -> dict[str, Any]:
    single = len(letter.sections) == 1 and letter.covered == 1
    elements: list[dict[str, Any]] = []
    for section in letter.sections:
        if elements:
            elements.append({"tag": "hr"})
        elements += _section(section, with_title=not single)
    if letter.more:
        elements.append(_text(letter.more))
    elements.append(_buttons((letter.link,)))
    elements.append({"tag": "note", "elements": [_plain(letter.footer)]})
    return {
        "msg_type": "interactive",
        "card": {
            "config": {"wide_screen_mode": True},
            "header": {"title": _plain(letter.subject), "template": _COLOURS[letter.tone]},
            "elements": elements,
        },
    }


def _section(section: LetterSection, *, with_title: bool) -> list[dict[str, Any]]:
    lines = [section.title] if with_title else []
    lines += [section.sentence, *section.own_lines]
    lines += [f"{each.label}: {each.text}" for each in section.facts]
    if section.error_line:
        lines.append(f"{section.error_label}: {section.error_line}")
    found = [_text("\n".join(line for line in lines if line))]
    if section.links:
        found.append(_buttons(section.links))
    return found


def _buttons(links: tuple[LetterLink, ...]) -> dict[str, Any]:
    return {
        "tag": "action",
        "actions": [
            {"tag": "button", "text": _plain(each.label), "url": each.url, "type": "default"}
            for each in links
        ],
    }


def _text(text: str) -> dict[str, Any]:
    return {"tag": "div", "text": _plain(text)}


def _plain(text: str) -> dict[str, Any]:
    return {"tag": "plain_text", "content": text}
