"""Webhooks: the body, its signature, and servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.admin.channels.certificates import server_tls, trusting_tls
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
from tests.admin.xxl_job.fake_names import FakeNames
from tickwheel_admin.channels import http
from tickwheel_admin.channels.http import retry_after
from tickwheel_admin.channels.senders import Channels
from tickwheel_admin.channels.webhook.payload import WebhookMessage, schema
from tickwheel_admin.domain.alarms.channel import ChannelKind
from tickwheel_admin.domain.network_guard import alarm_guard
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

DOCS = Path(__file__).parents[3] / "docs"
KEY = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="


@pytest.fixture
async def server() -> AsyncIterator[StubServer]:
    async with stub_server() as stub:
        yield stub


@pytest.fixture
async def channels() -> AsyncIterator[Channels]:
    made = Channels(HERE, now=lambda: NOW)
    yield made
    await made.close()


def webhook(url: str, **secrets: str) -> Any:
    return channel(ChannelKind.WEBHOOK, settings={"url": url}, secrets=secrets)


async def test_a_message_is_json_by_the_schema(server: StubServer, channels: Channels) -> None:
    own = webhook(f"{server.url}/alarms?team=a", headers=f"Authorization: Bearer {SECRET}")

    assert await channels.send(own, message()) == Delivered(answer="200 ok")

    [request], [body] = server.requests, server.bodies
    assert request.method == "POST"
    assert request.path_qs == "/alarms?team=a"
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert request.headers["Idempotency-Key"] == request.headers["webhook-id"] == message().id
    assert "webhook-signature" not in request.headers
    told = msgspec.json.decode(body, type=WebhookMessage, strict=True)
    assert told.version == 1
    assert told.written_at == "2026-03-29T01:00:00Z"
    assert told.alarms[0].executor == "billing"
    assert told.alarms[0].links["run"] == f"{BASE}/runs/77"


def test_the_published_schema_is_that_of_the_code() -> None:
    published = json.loads((DOCS / "alarm-webhook.schema.json").read_text(encoding="utf-8"))
    assert published == schema(), "run python -m tests.support.documents"


async def test_the_verification_in_the_documents_works(
    server: StubServer, channels: Channels
) -> None:
    text = (DOCS / "alarms.md").read_text(encoding="utf-8")
    [snippet] = [
        each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "def verify" in each
    ]
    program: dict[str, Any] = {}
    exec(compile(snippet, "alarms.md", "exec"), program)
    for secret in (KEY, "a key of 24 letters, at least"):
        server.requests.clear()
        server.bodies.clear()
        await channels.send(webhook(server.url, secret=secret), message())
        [request], [body] = server.requests, server.bodies

        headers, now = request.headers, NOW // 1_000
        assert program["verify"](headers, body, secret, now=now)
        assert not program["verify"](headers, body + b" ", secret, now=now)
        assert not program["verify"](headers, body, "whsec_QUJD", now=now)
        assert not program["verify"](headers, body, secret, now=now + 600)
        assert not program["verify"]({}, body, secret, now=now)


@pytest.mark.parametrize(
    ("status", "headers", "permanent", "after"),
    [
        (204, {}, None, None),
        (400, {}, True, None),
        (401, {}, True, None),
        (404, {}, True, None),
        (410, {}, True, None),
        (408, {}, False, None),
        (429, {"Retry-After": "17"}, False, 17.0),
        (429, {"Retry-After": "999999"}, False, 3_600.0),
        (500, {}, False, None),
        (503, {"Retry-After": "soon"}, False, None),
        (301, {"Location": "http://169.254.169.254/"}, True, None),
        (302, {"Location": "/elsewhere"}, False, None),
    ],
)
async def test_what_an_answer_means(
    server: StubServer,
    channels: Channels,
    status: int,
    headers: dict[str, str],
    permanent: bool | None,
    after: float | None,
) -> None:
    server.status, server.headers = status, headers

    told = await channels.send(webhook(server.url), message())

    assert len(server.requests) == 1  # nothing is followed, nothing is sent twice
    if permanent is None:
        assert isinstance(told, Delivered)
    else:
        assert isinstance(told, Undelivered)
        assert told.permanent is permanent
        assert told.retry_after_seconds == after
        assert str(status) in told.why


def test_retry_after_may_be_a_date() -> None:
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after("Fri, 31 Dec 2100 23:59:59 GMT") == 3_600.0
    assert retry_after("") is None


async def test_an_endless_answer_is_read_as_far_as_its_bound(
    server: StubServer, channels: Channels
) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Encoding": "gzip"})
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 65_536)
        except ConnectionError:
            pass
        return answer

    server.answer = endless
    told = await channels.send(webhook(server.url), message())

    assert isinstance(told, Delivered)
    assert len(told.answer) <= 500


async def test_a_server_that_does_not_answer_is_given_up(
    server: StubServer, channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    server.answer = silent
    monkeypatch.setattr(http, "CALL_SECONDS", 0.2)

    told = await channels.send(webhook(server.url), message())

    assert isinstance(told, Undelivered)
    assert "No answer within" in told.why
    assert not told.permanent


async def test_a_secret_that_comes_back_is_hidden(server: StubServer, channels: Channels) -> None:
    server.answer, server.status = f"your token Bearer {SECRET} is wrong\r\n", 500
    own = webhook(server.url, headers=f"Authorization: Bearer {SECRET}\nX-Other: tiny", secret=KEY)

    told = await channels.send(own, message())

    assert isinstance(told, Undelivered)
    assert SECRET not in told.why
    assert "is wrong" in told.why


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://10.0.0.5/",
        "http://169.254.169.254/latest/meta-data",
        "http://[fd00:ec2::254]/",
        "http://100.100.100.200/",
        "http://100.64.0.1/",
        "http://localhost/",
        "https://0.0.0.0/",
        "http://224.0.0.1/",
    ],
)
async def test_addresses_inside_are_not_called(url: str) -> None:
    channels = Channels(alarm_guard([]), now=lambda: NOW)
    try:
        told = await channels.send(webhook(url), message())
    finally:
        await channels.close()

    assert isinstance(told, Undelivered)
    assert told.why.startswith(("Not called: ", "The URL cannot be read."))


async def test_a_name_is_judged_at_each_connection(server: StubServer) -> None:
    """A name that resolves to another address a moment later changes nothing."""
    names = FakeNames({"hook.example": [["127.0.0.1"], ["169.254.169.254"], ["127.0.0.2"]]})
    channels = Channels(alarm_guard(["127.0.0.1/32"]), now=lambda: NOW, resolver=names)
    own = webhook(server.url.replace("127.0.0.1", "hook.example"))
    try:
        told = [await channels.send(own, message()) for _ in range(3)]
    finally:
        await channels.close()

    assert [type(each) for each in told] == [Delivered, Undelivered, Undelivered]
    assert "never called" in told[1].why  # type: ignore[union-attr]
    assert "outside alarm_networks" in told[2].why  # type: ignore[union-attr]
    assert len(server.requests) == 1


async def test_certificates_are_verified() -> None:
    async with stub_server(server_tls()) as server:
        told = []
        for tls in (None, trusting_tls()):
            channels = Channels(HERE, now=lambda: NOW, tls=tls)
            told.append(await channels.send(webhook(server.url), message()))
            await channels.close()

    assert isinstance(told[0], Undelivered)
    assert "certificate" in told[0].why
    assert isinstance(told[1], Delivered)


async def test_nobody_listens_there(channels: Channels, unused_tcp_port: int) -> None:
    told = await channels.send(webhook(f"http://127.0.0.1:{unused_tcp_port}"), message())
    assert isinstance(told, Undelivered)
    assert told.why.startswith("No connection: ")
    assert not told.permanent


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_texts_are_data(server: StubServer, channels: Channels, text: str) -> None:
    await channels.send(webhook(server.url), hostile_message(text))

    alarm = json.loads(server.bodies[0])["alarms"][0]
    assert alarm["job"] == text
    assert "\n" not in alarm["title"]
    headers = server.requests[0].headers
    assert "Bcc" not in headers


async def test_a_defect_of_ours_is_told_and_hides_the_address(channels: Channels) -> None:
    bad = message(entry(kind="no kind"))
    told = await channels.send(webhook("http://127.0.0.1:1/"), bad)
    assert told == Undelivered(why="Tickwheel could not send it: KeyError.")


async def test_a_channel_that_lost_its_secrets_says_so(channels: Channels) -> None:
    told = await channels.send(channel(ChannelKind.SLACK, secrets={}), message())
    assert told == Undelivered(why="The channel lacks url: edit it.", permanent=True)
