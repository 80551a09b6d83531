"""Slack's incoming webhooks: blocks of `rich_text`, whose texts have no markup.

Webhooks and their errors: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks;
blocks and their limits (50 a message, 150 characters a header):
https://docs.slack.dev/reference/block-kit/blocks; escaping of `&`, `<` and `>` in the one text that
has markup: https://docs.slack.dev/messaging/formatting-message-text. One message a second; 429 says
when the next one may come.
"""

from __future__ import annotations

from typing import Any

from tickwheel_admin.channels.chat.bot import BotCall, size_in_bytes
from tickwheel_admin.channels.http import HttpReply
from tickwheel_admin.channels.masking import told
from tickwheel_admin.channels.text.cleaning import clip
from tickwheel_admin.channels.text.letter import Letter, LetterLink, LetterSection, fitted
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

MAX_BLOCKS = 50
MAX_BYTES = 30_000
MAX_HEADER_CHARS = 150
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Slack:
    """https://hooks.slack.com/services/…"""

    def call(self, channel: Channel, letter: Letter, *, now: int) -> BotCall:
        return BotCall(
            url=channel.secrets["url"],
            body=fitted(letter, _message, size=_size, limit=MAX_BYTES),
        )

    def judge(self, channel: Channel, reply: HttpReply) -> Delivered | Undelivered:
        said = told(reply.text, channel)
        if said == "ok":
            return Delivered(answer=said)
        return Undelivered(why=f"Answered something else: {said}"[:500])


def _size(body: dict[str, Any]) -> int:
    return size_in_bytes(body) if len(body["blocks"]) <= MAX_BLOCKS else MAX_BYTES + 1


def _message(letter: Letter) -> dict[str, Any]:
    single = len(letter.sections) == 1 and letter.covered == 1
    header = {
        "type": "header",
        "text": {
            "type": "plain_text",
            "text": clip(letter.subject, MAX_HEADER_CHARS),
            "emoji": False,
        },
    }
    sections = [_rich(_section(each, with_title=not single)) for each in letter.sections]
    end = [_run(letter.more + "\n")] if letter.more else []
    end += [_link(letter.link), _run(f"\n{letter.footer}")]
    return {
        # For notifications of devices; the only text in which Slack reads markup.
        "text": letter.subject.translate(_ESCAPES),
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [header, *sections, _rich([{"type": "rich_text_section", "elements": end}])],
    }


def _section(section: LetterSection, *, with_title: bool) -> list[dict[str, Any]]:
    elements = [_run(section.title + "\n", bold=True)] if with_title else []
    elements += [_run(line + "\n") for line in (section.sentence, *section.own_lines) if line]
    for fact in section.facts:
        elements += [_run(f"{fact.label}: ", bold=True), _run(fact.text + "\n")]
    found: list[dict[str, Any]] = [{"type": "rich_text_section", "elements": elements}]
    if section.error_line:
        found.append({"type": "rich_text_preformatted", "elements": [_run(section.error_line)]})
    if section.links:
        links = [part for each in section.links for part in (_run(" · "), _link(each))][1:]
        found.append({"type": "rich_text_section", "elements": links})
    return found


def _rich(elements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "rich_text", "elements": elements}


def _run(text: str, *, bold: bool = False) -> dict[str, Any]:
    run: dict[str, Any] = {"type": "text", "text": text}
    return {**run, "style": {"bold": True}} if bold else run


def _link(link: LetterLink) -> dict[str, Any]:
    return {"type": "link", "url": link.url, "text": link.label}
