"""Requests that no handler ever sees: answered in our words, with nothing of what runs here."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest
from structlog.testing import capture_logs

from tests.admin.kit.engine import add_links
from tests.admin.kit.served import cheap_passwords, config_in, fresh_store
from tickwheel_admin.app.services import create_services
from tickwheel_admin.app.web_app import create_app
from tickwheel_admin.domain.users.user import Role, everywhere
from tickwheel_admin.services.users.administration import COMMAND_LINE
from tickwheel_admin.store.triggers.planning import ensure_buckets
from tickwheel_admin.web.headers import SECURITY_HEADERS
from tickwheel_admin.web.server import bind, create_runner, serve

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /api/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LINK = b"GET /link/v1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %(node)s\r\n"
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
BROKEN = {
    "no request line": (b"what is this\r\n\r\n", 400),
    "an HTTP version from the future": (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400),
    "HTTP/2 without being asked": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "an unknown method": (b"Q{Q / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "no path": (b"GET abc HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a URL that is none": (b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "a header without a colon": (GET + b"Oops\r\n\r\n", 400),
    "NUL in a header": (GET + b"X-A: b\0c\r\n\r\n", 400),
    "a folded header": (GET + b"X-A: b\r\n c\r\n\r\n", 400),
    "a long request line": (b"GET /" + b"a" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
    "a long header": (GET + b"X-A: " + b"a" * 20_000 + b"\r\n\r\n", 431),
    "a thousand headers": (GET + b"X-A: b\r\n" * 1_000 + b"\r\n", 400),
    "a negative length": (POST + b"Content-Length: -1\r\n\r\n", 400),
    "two lengths": (POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    "a length and chunks": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    "chunks of no size": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", 400),
    "an endless chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\n", 400),
    "something expected": (GET + b"Expect: the-moon\r\n\r\n", 417),
    "something expected nowhere": (b"GET /no HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n", 417),
    "a link that is not upgraded": (LINK + b"\r\n", 400),
    "a link of an old WebSocket": (LINK + UPGRADE + b"Sec-WebSocket-Version: 7\r\n\r\n", 400),
    "a link without a key": (LINK + UPGRADE + b"Sec-WebSocket-Version: 13\r\n\r\n", 400),
}
# What would tell: names, versions, file names, classes, and the parser's quotes (b'...').
TELLING = re.compile(r"(?i:python|aiohttp|llhttp|traceback)|\d\.\d+\.\d|\.py|[a-z]Error\b|b'")


class Say(Protocol):
    """Sends bytes to the server as it listens; what comes back until it closes, or so far."""

    async def __call__(self, said: bytes, *, until: bytes | None = None) -> bytes: ...


@pytest.fixture
async def say(tmp_path: Path) -> AsyncIterator[Say]:
    async with fresh_store(tmp_path) as store:
        await store.run(ensure_buckets)
        services = create_services(store, passwords=cheap_passwords())
        executor = await services.executors.create(COMMAND_LINE, name="billing")
        await services.users.create(COMMAND_LINE, "a", grants=everywhere(Role.ADMIN))
        token = await services.api_tokens.create_for(COMMAND_LINE, "a", name="ci")
        app = create_app(config_in(tmp_path), services)
        await add_links(app, store)
        runner = create_runner(app, shutdown_seconds=0.2)
        await runner.setup()
        [sock] = bind("127.0.0.1", 0)
        await serve(runner, [sock])
        address = sock.getsockname()[:2]

        async def send(said: bytes, *, until: bytes | None = None) -> bytes:
            said = said.replace(b"%(node)s", executor.token.encode())
            said = said.replace(b"%(token)s", token.encode())
            reader, writer = await asyncio.open_connection(*address)
            writer.write(said)
            try:
                async with asyncio.timeout(10):
                    return await (reader.readuntil(until) if until else reader.read())
            finally:
                writer.close()

        yield send
        await runner.cleanup()
        services.close()


async def test_broken_requests_are_answered_without_a_word_of_what_runs_here(
    say: Say, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for name, (request, status) in BROKEN.items():
        with capture_logs() as logged:
            # So that one which is answered by a handler ends as well.
            answer = await say(request.replace(b"Host: x", b"Host: x\r\nConnection: close", 1))
        head, _, body = answer.decode().partition("\r\n\r\n")
        line, *headers = head.split("\r\n")
        assert line.split()[1] == str(status), name
        assert not TELLING.search(line.partition(" ")[2] + "\n".join(headers) + body), name
        had = dict(header.split(": ", 1) for header in headers)
        assert SECURITY_HEADERS.items() <= had.items(), name
        assert had["Cache-Control"] == "no-store", name
        error = json.loads(body)["error"]
        assert (error["correlation_id"], error["problems"]) == (had["X-Correlation-Id"], []), name
        assert all((error["code"], error["message"])), name
        [event] = logged
        assert (event["status"], event["log_level"]) == (status, "info"), name
        assert event.get("correlation_id", had["X-Correlation-Id"]) == had["X-Correlation-Id"], name
    assert caplog.records == []


async def test_who_leaves_in_the_middle_of_a_body_leaves_no_trace_in_the_log(
    say: Say, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    head = POST + b"Authorization: Bearer %(token)s\r\nContent-Length: 99\r\n"
    await say(head + b"Expect: 100-continue\r\n\r\n{", until=b"100 Continue\r\n\r\n")
    await say(GET + b"Connection: close\r\n\r\n")
    assert caplog.records == []


async def test_what_is_asked_for_cannot_forge_the_log(say: Say) -> None:
    with capture_logs() as logged:
        await say(b"GET /a%0Ab%1B[2J HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert [event["path"] for event in logged] == ["/a%0Ab%1B[2J"]
