"""Bad days of links: nobody there, somebody else there, and admins that do not want this node."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.executor_sdk.scripted_admin import TOKEN, ScriptedAdmin, make_node, request
from tests.executor_sdk.virtual_time import virtual_time
from tests.support.polling import wait_until_async
from tickwheel_executor import Executor, Run
from tickwheel_executor.errors import ConnectError
from tickwheel_executor.link.channel import connect
from tickwheel_executor.testing import FakeAdmin
from tickwheel_shared.protocol import Rejected, Result

CERTIFICATE = Path(__file__).with_name("self_signed.pem")
UPGRADE = "no common protocol version: the node speaks [1], this admin 2; upgrade the SDK"


async def work(run: Run) -> None:
    return None


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno == logging.WARNING]


# --- nobody there ---------------------------------------------------------------------------------


@virtual_time
async def test_that_no_admin_answers_is_said_once_a_minute_with_all_reasons(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = ScriptedAdmin("a-1", url="http://a-1"), ScriptedAdmin("a-2", url="http://a-2")
    first.up = second.up = False
    node = make_node(first, second, handlers={"work": work})
    await node.start()
    await asyncio.sleep(30)
    assert warnings(caplog) == [
        "admin http://a-1: connection refused; trying again until it answers",
        "admin http://a-2: connection refused; trying again until it answers",
    ]
    await asyncio.sleep(260)
    again = warnings(caplog)[2:]
    assert len(again) == 4
    assert again[0] == (
        "no admin has answered for 60 s, trying again until one does: "
        "http://a-1: connection refused; http://a-2: connection refused"
    )
    first.up = second.up = True
    session = await first.session()
    session.send(request())
    await session.expect(Result)
    await node.drain(1)


@virtual_time
async def test_an_admin_that_stays_away_beside_another_is_named_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = ScriptedAdmin("a-1", url="http://a-1"), ScriptedAdmin("a-2", url="http://a-2")
    second.up = False
    node = make_node(first, second, handlers={"work": work})
    await node.start()
    await asyncio.sleep(130)
    told = warnings(caplog)
    assert told[0] == "admin http://a-2: connection refused; trying again until it answers"
    assert (
        told[1:]
        == ["trying again to reach admins that do not answer: http://a-2: connection refused"] * 2
    )
    second.up = True
    await second.session()
    count = len(told)
    await asyncio.sleep(130)
    assert len(warnings(caplog)) == count
    await node.drain(1)


# --- not wanted -----------------------------------------------------------------------------------


@virtual_time
async def test_a_node_knows_that_every_admin_has_refused_it() -> None:
    first, second = ScriptedAdmin("a-1", url="http://a-1"), ScriptedAdmin("a-2", url="http://a-2")
    first.unauthorized = True
    second.up = False
    node = make_node(first, second, handlers={"work": work})
    await node.start()
    refused = asyncio.create_task(node.until_refused())
    await asyncio.sleep(300)
    assert not refused.done()  # the other one may know the token
    second.welcomes = False
    second.up = True
    for _ in range(2_000):  # the next try comes within 15 s
        await asyncio.sleep(0.01)
        if second.sessions:
            break
    (session,) = second.sessions
    session.send(Rejected(code="wrong_executor", message="not yours", fatal=True))
    assert await refused == (
        "http://a-1: the admin answered 401; http://a-2: rejected (wrong_executor): not yours"
    )
    await node.drain(0)


@virtual_time
async def test_a_token_that_worked_is_not_given_up() -> None:
    admin = ScriptedAdmin()
    node = make_node(admin, handlers={"work": work})
    await node.start()
    refused = asyncio.create_task(node.until_refused())
    session = await admin.session()
    admin.unauthorized = True  # it is being replaced, say
    session.close()
    await asyncio.sleep(600)
    assert not refused.done()
    admin.unauthorized = False
    await admin.session(1)
    refused.cancel()
    await node.drain(0)


SCRIPT = """
from tickwheel_executor import Executor

executor = Executor("billing", name="node-1")

@executor.handler("work")
async def work():
    pass

executor.run()
"""


async def run_process(admin: FakeAdmin, token: str, directory: Path) -> tuple[int | None, str]:
    script = directory / "service.py"
    script.write_text(SCRIPT)
    settings = {"TICKWHEEL_ADMINS": admin.url, "TICKWHEEL_TOKEN": token}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        env={**os.environ, **settings, "XDG_STATE_HOME": str(directory)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    return process.returncode, output.decode()


async def test_a_service_with_a_wrong_token_ends_and_says_so(tmp_path: Path) -> None:
    async with FakeAdmin() as admin:
        code, output = await run_process(admin, TOKEN, tmp_path)
    assert code == 78
    assert f"admin {admin.url} does not accept the executor token (it answered 401)" in output
    assert "TICKWHEEL_TOKEN" in output
    assert "stopping, for no admin lets this node in" in output
    assert "Traceback" not in output
    assert TOKEN not in output


def run_here(admin: FakeAdmin, directory: Path) -> int | str | None:
    """The exit code of `Executor.run()` in this very process."""
    executor = Executor("billing", admins=[admin.url], token=admin.token, spool_dir=directory)
    executor.handler("work")(work)
    with pytest.raises(SystemExit) as ended:
        executor.run()
    return ended.value.code


def test_a_service_of_another_version_ends_and_says_what_to_upgrade(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeAdmin() as admin:
        admin.reject("version", UPGRADE)
        assert run_here(admin, tmp_path) == 78
    assert f"rejects this node (version): {UPGRADE} [python/" in caplog.text


def test_a_service_of_another_name_ends_and_says_whose_token_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeAdmin("mailing") as admin:
        assert run_here(admin, tmp_path) == 78
    assert "the token belongs to 'mailing', not to 'billing'" in caplog.text


async def test_a_host_lives_on_when_its_node_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeAdmin() as admin:
        executor = Executor("billing", admins=[admin.url], token=TOKEN, spool_dir=tmp_path)
        async with executor:
            await wait_until_async(lambda: "does not accept" in caplog.text)
    assert [each.levelno for each in caplog.records if "accept" in each.message] == [logging.ERROR]


# --- somebody else there --------------------------------------------------------------------------


@pytest.fixture
async def strangers(unused_tcp_port: int) -> AsyncIterator[dict[str, str]]:
    """Base URLs of what is no admin."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>Please log in</html>", content_type="text/html")

    async def login(request: web.Request) -> web.Response:
        raise web.HTTPFound("/page/link/v1")

    async def broken(request: web.Request) -> web.Response:
        return web.Response(status=502)

    app = web.Application()
    app.router.add_get("/page/link/v1", page)
    app.router.add_get("/login/link/v1", login)
    app.router.add_get("/broken/link/v1", broken)
    runner = web.AppRunner(app)
    await runner.setup()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(CERTIFICATE)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    (_, plain), (_, safe) = (address[:2] for address in runner.addresses)
    ssh = await asyncio.start_server(_speak_ssh, "127.0.0.1", 0)
    yield {
        "nobody": f"http://127.0.0.1:{unused_tcp_port}",
        "no name": "http://tickwheel.invalid",
        "page": f"http://127.0.0.1:{plain}/page",
        "login": f"http://127.0.0.1:{plain}/login",
        "broken": f"http://127.0.0.1:{plain}/broken",
        "nothing": f"http://127.0.0.1:{plain}/nothing",
        "plain": f"https://127.0.0.1:{plain}",
        "self-signed": f"https://127.0.0.1:{safe}",
        "tls": f"http://127.0.0.1:{safe}",
        "ssh": f"http://127.0.0.1:{ssh.sockets[0].getsockname()[1]}",
    }
    ssh.close()
    await ssh.wait_closed()
    await runner.cleanup()


async def _speak_ssh(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readline()
    writer.write(b"SSH-2.0-OpenSSH_9.9\r\n")
    await writer.drain()
    writer.close()


async def test_what_is_no_admin_is_told_apart(strangers: dict[str, str]) -> None:
    told = {}
    for name, url in strangers.items():
        with pytest.raises(ConnectError) as caught:
            await connect(url, TOKEN)
        told[name] = str(caught.value)
    # In these is a text of the system's libraries, which differs from version to version.
    for name, text in {
        "no name": r"the name of its host cannot be resolved \(.+\)",
        "plain": r"no TLS connection \(.+\); is its URL http:// and not https://\?",
        "self-signed": r"its certificate is not trusted \(self.signed .*\); .*TICKWHEEL_CA_FILE",
    }.items():
        assert re.fullmatch(text, told.pop(name))
    other = (
        "it answered 200 in place of a WebSocket: what is there is no Tickwheel admin, or a proxy "
        "before it that does not let WebSockets through"
    )
    assert told == {
        "nobody": "it cannot be reached (Connection refused)",
        "page": other,
        "login": other,
        "broken": "it answered 502: it is starting, or in trouble",
        "nothing": "it answered 404: at this URL is no Tickwheel admin, or one so much older or "
        "newer that it does not know this SDK's protocol",
        "tls": "it closed the connection without an answer; is its URL https://?",
        "ssh": "what answers there does not speak HTTP; is the port right?",
    }
