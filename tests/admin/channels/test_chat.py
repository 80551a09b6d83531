"""Chat bots: the shapes that each service documents, its answers, and names that are hostile."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.admin.channels.kit import (
    BASE,
    HERE,
    HOSTILE,
    NOW,
    SECRET,
    channel,
    entry,
    hostile_message,
    message,
)
from tests.admin.channels.stub_server import StubServer, stub_server
from tickwheel_admin.channels.chat import dingtalk, feishu, slack, teams, wecom
from tickwheel_admin.channels.chat.bot import ChatDialect
from tickwheel_admin.channels.senders import Channels
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

DIALECTS: dict[ChannelKind, ChatDialect] = {
    ChannelKind.DINGTALK: dingtalk.DingTalk(),
    ChannelKind.WECOM: wecom.WeCom(),
    ChannelKind.FEISHU: feishu.Feishu(),
    ChannelKind.SLACK: slack.Slack(),
    ChannelKind.TEAMS: teams.Teams(),
}
DINGTALK_SIGN = "5xQu5a1+2hvQrofvZqWGUf3mWszC1WbmdOiWgQwk+1M="
FEISHU_SIGN = "su5s7grbUp7k7cKfuIJE76l3dnNhKwx5mWbFTsZRs/g="


@pytest.fixture
async def server() -> AsyncIterator[StubServer]:
    async with stub_server() as stub:
        yield stub


def body_of(kind: ChannelKind, told: AlarmMessage, **changes: Any) -> Any:
    of = channel(kind, **changes)
    return DIALECTS[kind].call(of, compose(of, told), now=NOW).body


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Every object within."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from parts(each)


def tokens(text: str) -> list[Token]:
    """What a reader of Markdown makes of it, with tables, strikethrough and HTML."""
    found = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    return [child for each in found for child in [each, *(each.children or [])]]


def test_dingtalk_gets_markdown_that_mentions_nobody() -> None:
    body = body_of(ChannelKind.DINGTALK, message())

    assert body["msgtype"] == "markdown"
    assert body["at"] == {"isAtAll": False}
    assert body["markdown"]["title"] == (
        "［Tickwheel prod-eu］ Run failed: billing / nightly-report"
    )
    assert f"[Run #77]({BASE}/runs/77)" in body["markdown"]["text"]


def test_dingtalk_signs_as_its_documents_say() -> None:
    of = channel(
        ChannelKind.DINGTALK,
        secrets={"url": "https://oapi.dingtalk.com/robot/send?access_token=t", "secret": "SECx"},
    )
    url = DIALECTS[ChannelKind.DINGTALK].call(of, compose(of, message()), now=NOW).url

    # HMAC-SHA256 with the secret as key, over timestamp, line end and secret; computed by openssl.
    assert dingtalk.sign("SECx", NOW) == DINGTALK_SIGN
    assert url == (
        f"https://oapi.dingtalk.com/robot/send?access_token=t&timestamp={NOW}"
        f"&sign={DINGTALK_SIGN.replace('+', '%2B').replace('=', '%3D')}"
    )


def test_wecom_gets_markdown() -> None:
    body = body_of(ChannelKind.WECOM, message())
    assert body["msgtype"] == "markdown"
    assert set(body["markdown"]) == {"content"}


def test_feishu_gets_a_card_and_signs_it() -> None:
    secrets = {"url": "https://open.feishu.cn/open-apis/bot/v2/hook/x", "secret": "s3"}
    body = body_of(ChannelKind.FEISHU, message(), secrets=secrets)

    assert body["timestamp"] == str(NOW // 1_000)
    # Timestamp, line end and secret are the key, and nothing is signed; computed by openssl.
    assert body["sign"] == FEISHU_SIGN
    assert body["msg_type"] == "interactive"
    assert body["card"]["header"]["template"] == "red"
    buttons = [each for each in parts(body) if each.get("tag") == "button"]
    assert [each["url"] for each in buttons][-1] == f"{BASE}/alarms"


def test_slack_gets_blocks() -> None:
    body = body_of(ChannelKind.SLACK, message())

    assert [each["type"] for each in body["blocks"]] == ["header", "rich_text", "rich_text"]
    assert body["text"].startswith("[Tickwheel prod-eu]")  # what notifications show
    links = [each["url"] for each in parts(body) if each.get("type") == "link"]
    assert f"{BASE}/runs/77/retry" in links


def test_teams_gets_an_adaptive_card() -> None:
    body = body_of(ChannelKind.TEAMS, message())

    [attachment] = body["attachments"]
    assert body["type"] == "message"
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attachment["content"]["type"] == "AdaptiveCard"
    opened = [each["url"] for each in parts(body) if each.get("type") == "Action.OpenUrl"]
    assert f"{BASE}/alarms/12" in opened


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", [ChannelKind.DINGTALK, ChannelKind.WECOM])
def test_hostile_texts_in_markdown(kind: ChannelKind, text: str) -> None:
    body = body_of(kind, hostile_message(text))
    content = body["markdown"].get("text") or body["markdown"]["content"]

    known = tokens(content)

    kinds = {each.type for each in known}
    assert not kinds & {
        "html_inline", "html_block", "image", "em_open", "s_open", "code_inline", "code_block",
        "fence", "hr", "table_open", "bullet_list_open", "ordered_list_open",
    }  # fmt: skip
    assert [each.type for each in known].count("heading_open") == 1
    links = {str(each.attrs["href"]) for each in known if each.type == "link_open"}
    assert links <= {f"{BASE}/runs/77", f"{BASE}/alarms"}
    assert not set("<@`") & set(content)
    assert "://evil" not in content
    # Bold are our titles, each as a whole.
    for number, each in enumerate(known):
        if each.type == "strong_open":
            assert known[number + 2].type == "strong_close"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_in_structures_without_markup(text: str) -> None:
    told = hostile_message(text)

    card = body_of(ChannelKind.FEISHU, told)
    assert {each["tag"] for each in parts(card) if "tag" in each} <= {
        "plain_text", "div", "action", "button", "hr", "note",
    }  # fmt: skip
    blocks = body_of(ChannelKind.SLACK, told)
    assert {each["type"] for each in parts(blocks["blocks"]) if "type" in each} <= {
        "header", "plain_text", "rich_text", "rich_text_section", "rich_text_preformatted", "text",
        "link",
    }  # fmt: skip
    assert not set("<>") & set(blocks["text"])
    sheet = body_of(ChannelKind.TEAMS, told)
    assert {each["type"] for each in parts(sheet) if "type" in each} <= {
        "message", "AdaptiveCard", "RichTextBlock", "TextRun", "ActionSet", "Action.OpenUrl",
    }  # fmt: skip
    assert "entities" not in json.dumps(sheet)  # without them nothing is a mention
    for body in (card, blocks, sheet):
        urls = {each["url"] for each in parts(body) if "url" in each}
        assert urls == {f"{BASE}/runs/77", f"{BASE}/alarms"}


@pytest.mark.parametrize("text", ["x", "好" * 2_000, "\\u0001<&\"'" * 500])
@pytest.mark.parametrize(
    ("kind", "limit"),
    [
        (ChannelKind.DINGTALK, 20_000),
        (ChannelKind.WECOM, 4_096),
        (ChannelKind.FEISHU, 20 * 1024),
        (ChannelKind.SLACK, 32_000),
        (ChannelKind.TEAMS, 28 * 1024),
    ],
)
def test_messages_are_as_long_as_the_service_takes(
    kind: ChannelKind, limit: int, text: str
) -> None:
    one = entry(job_name=text, error_line=text, own_text=text, rule_name=text)
    body = body_of(kind, message(*[one] * 50, covered=400, installation=text))

    content = (
        body["markdown"]["content"]
        if kind is ChannelKind.WECOM
        else json.dumps(body, ensure_ascii=False)
    )
    assert len(content.encode()) <= limit
    assert " more" in content
    assert f"{BASE}/alarms" in content
    if kind is ChannelKind.SLACK:
        assert len(body["blocks"]) <= 50
        assert len(body["blocks"][0]["text"]["text"]) <= 150


# What the services answer, as their documents and their users' reports have it.
ANSWERS = [
    (ChannelKind.DINGTALK, {"errcode": 0, "errmsg": "ok"}, Delivered, None),
    (ChannelKind.DINGTALK, {"errcode": 310000, "errmsg": "sign not match"}, "permanent", None),
    (ChannelKind.DINGTALK, {"errcode": 300001, "errmsg": "token is not exist"}, "permanent", None),
    (ChannelKind.DINGTALK, {"errcode": 130101, "errmsg": "send too fast"}, "passing", 600.0),
    (ChannelKind.DINGTALK, {"errcode": -1, "errmsg": "system busy"}, "passing", None),
    (ChannelKind.WECOM, {"errcode": 0, "errmsg": "ok"}, Delivered, None),
    (ChannelKind.WECOM, {"errcode": 93000, "errmsg": "invalid webhook url"}, "permanent", None),
    (ChannelKind.WECOM, {"errcode": 45009, "errmsg": "api freq out of limit"}, "passing", 60.0),
    (ChannelKind.FEISHU, {"code": 0, "msg": "success", "data": {}}, Delivered, None),
    (ChannelKind.FEISHU, {"StatusCode": 0, "StatusMessage": "success"}, Delivered, None),
    (ChannelKind.FEISHU, {"code": 19021, "msg": "sign match fail"}, "permanent", None),
    (ChannelKind.FEISHU, {"code": 11232, "msg": "frequency limited"}, "passing", 60.0),
    (ChannelKind.SLACK, "ok", Delivered, None),
    (ChannelKind.SLACK, "<html>proxy</html>", "passing", None),
    (ChannelKind.TEAMS, "", Delivered, None),
    (ChannelKind.TEAMS, "1", Delivered, None),
    (ChannelKind.TEAMS, "Microsoft Teams endpoint returned HTTP error 429", "passing", 60.0),
    (ChannelKind.DINGTALK, "<html>proxy</html>", "passing", None),
    (ChannelKind.WECOM, "[]", "passing", None),
]


async def test_what_answers_mean(server: StubServer) -> None:
    channels = Channels(HERE, now=lambda: NOW)
    for kind, answer, outcome, after in ANSWERS:
        server.answer = answer if isinstance(answer, str) else json.dumps(answer)
        of = channel(kind, secrets={"url": f"{server.url}/send?key={SECRET}"})

        told = await channels.send(of, message())

        if outcome is Delivered:
            assert isinstance(told, Delivered), (kind, answer, told)
        else:
            assert isinstance(told, Undelivered), (kind, answer, told)
            assert told.permanent is (outcome == "permanent"), (kind, answer, told)
            assert told.retry_after_seconds == after, (kind, answer, told)
    await channels.close()
    assert server.requests[0].path_qs == f"/send?key={SECRET}"
    assert server.requests[0].headers["Content-Type"] == "application/json; charset=utf-8"


async def test_tokens_of_bots_are_in_no_answer_and_no_log(
    server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    channels = Channels(HERE, now=lambda: NOW)
    server.answer, server.status = f"no such hook: /hook/{SECRET}?key={SECRET}2", 404
    of = channel(ChannelKind.FEISHU, secrets={"url": f"{server.url}/hook/{SECRET}?key={SECRET}2"})
    told = await channels.send(of, message())
    await channels.close()

    assert isinstance(told, Undelivered)
    assert told.permanent
    assert SECRET not in repr(told)
    assert SECRET not in repr(of)
    assert SECRET not in caplog.text
