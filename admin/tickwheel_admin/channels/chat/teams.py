"""Microsoft Teams, by the workflow "Post to a channel when a webhook request is received".

The message is an adaptive card in an envelope:
https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors/how-to/connectors-using.
In cards, Markdown is read in `TextBlock` and facts
(https://learn.microsoft.com/microsoftteams/platform/task-modules-and-cards/cards/cards-format), and
not in the `TextRun` of a `RichTextBlock`
(https://adaptivecards.io/explorer/TextRun.html), so that every text here is one. A message may have
28 KB; a workflow answers 202 with nothing.
"""

from __future__ import annotations

from typing import Any

from tickwheel_admin.channels.chat.bot import BotCall, size_in_bytes
from tickwheel_admin.channels.http import HttpReply
from tickwheel_admin.channels.masking import told
from tickwheel_admin.channels.text.letter import Letter, LetterLink, LetterSection, Tone, fitted
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

MAX_BYTES = 24_000
_COLOURS = {
    Tone.BAD: "attention",
    Tone.WARNING: "warning",
    Tone.GOOD: "good",
    Tone.NEUTRAL: "accent",
}
_TAKEN = ("", "1")  # "1" is what connectors answer, which are older than workflows


class Teams:
    """https://….environment.api.powerplatform.com/…/workflows/…"""

    def call(self, channel: Channel, letter: Letter, *, now: int) -> BotCall:
        return BotCall(
            url=channel.secrets["url"],
            body=fitted(letter, _message, size=size_in_bytes, limit=MAX_BYTES),
        )

    def judge(self, channel: Channel, reply: HttpReply) -> Delivered | Undelivered:
        said = told(reply.text, channel)
        if reply.status == 202 or said in _TAKEN:
            return Delivered(answer=f"{reply.status} {said}".strip()[:500])
        # Connectors tell refusals of Teams itself in a 200, "… returned HTTP error 429 …".
        if "429" in said:
            return Undelivered(why=said, retry_after_seconds=60.0)
        return Undelivered(why=f"Answered something else: {said}"[:500])


def _message(letter: Letter) -> dict[str, Any]:
    single = len(letter.sections) == 1 and letter.covered == 1
    body = [_text(letter.subject, colour=_COLOURS[letter.tone], weight="bolder", size="large")]
    for section in letter.sections:
        body += _section(section, with_title=not single)
    if letter.more:
        body.append(_text(letter.more))
    body.append(_text(letter.footer, isSubtle=True, size="small"))
    return {
        "type": "message",
        "summary": letter.subject,
        "attachments": [
            {
                "contentType": "application/vnd.microsoft.card.adaptive",
                "contentUrl": None,
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "msteams": {"width": "Full"},
                    "body": body,
                    "actions": [_open(letter.link)],
                },
            }
        ],
    }


def _section(section: LetterSection, *, with_title: bool) -> list[dict[str, Any]]:
    found = []
    if with_title:
        title = _text(section.title, colour=_COLOURS[section.tone], weight="bolder")
        found.append({**title, "separator": True})
    found += [_text(line) for line in (section.sentence, *section.own_lines) if line]
    found += [_text(f"{each.label}: {each.text}") for each in section.facts]
    if section.error_line:
        found.append(_text(f"{section.error_label}: {section.error_line}", fontType="monospace"))
    if section.links:
        found.append({"type": "ActionSet", "actions": [_open(each) for each in section.links]})
    return found


def _text(text: str, *, colour: str | None = None, **style: Any) -> dict[str, Any]:
    run = {"type": "TextRun", "text": text, **style}
    if colour is not None:
        run["color"] = colour
    return {"type": "RichTextBlock", "inlines": [run]}


def _open(link: LetterLink) -> dict[str, Any]:
    return {"type": "Action.OpenUrl", "title": link.label, "url": link.url}
