"""Apprise in its own process: what it gets, whom it may call, and that it ends."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.admin.channels.kit import (
    BASE,
    HERE,
    HOSTILE,
    NOW,
    SECRET,
    channel,
    hostile_message,
    message,
)
from tests.admin.channels.stub_server import stub_server
from tickwheel_admin.channels.apprise import sender
from tickwheel_admin.channels.apprise.sender import AppriseSender
from tickwheel_admin.channels.senders import Channels
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.domain.alarms.channel import Channel, ChannelKind
from tickwheel_admin.domain.network_guard import AddressGuard, alarm_guard
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered


def service(url: str) -> Channel:
    return channel(ChannelKind.APPRISE, secrets={"url": url})


async def sent(url: str, guard: AddressGuard) -> Delivered | Undelivered:
    channels = Channels(guard, now=lambda: NOW)
    try:
        return await channels.send(service(url), message())
    finally:
        await channels.close()


async def test_a_message_goes_to_where_its_url_says() -> None:
    async with stub_server() as server:
        target = server.url.replace("http://", f"json://u:{SECRET}@")
        told = await sent(f"{target}/here", HERE)
        server.status = 403
        refused = await sent(f"{target}/{SECRET}", HERE)

    assert isinstance(told, Delivered), told
    received = json.loads(server.bodies[0])
    assert received["title"] == "［Tickwheel prod-eu］ Run failed: billing / nightly-report"
    assert f"{BASE}/runs/77" in received["message"]
    assert received["type"] == "failure"
    assert isinstance(refused, Undelivered)
    assert not refused.permanent
    assert "403" in refused.why
    assert SECRET not in refused.why


async def test_it_calls_nobody_inside_and_knows_what_it_does_not_know() -> None:
    async with stub_server() as server:
        inside = await sent(server.url.replace("http://", "json://"), alarm_guard([]))
    unknown = await sent(f"nonsense://{SECRET}/x", HERE)

    assert not server.requests
    assert isinstance(inside, Undelivered)
    assert isinstance(unknown, Undelivered)
    assert unknown.permanent
    assert SECRET not in unknown.why


ATTEMPTS = """
import json, os, socket, subprocess, sys
from tickwheel_admin.channels.apprise.child import guard_process
from tickwheel_admin.domain.network_guard import alarm_guard
guard_process(alarm_guard([]))
def tried(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "done"
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as made:
        made.settimeout(0.2)
        made.connect(address)
def send(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.sendto(b"x", address)
print(json.dumps({
    "loopback": tried(lambda: connect(socket.AF_INET, ("127.0.0.1", 9))),
    "name": tried(lambda: connect(socket.AF_INET, ("localhost", 9))),
    "mapped": tried(lambda: connect(socket.AF_INET6, ("::ffff:127.0.0.1", 9))),
    "metadata": tried(lambda: connect(socket.AF_INET, ("169.254.169.254", 80))),
    "unix": tried(lambda: connect(socket.AF_UNIX, "/run/x")),
    "datagram": tried(lambda: send(("127.0.0.1", 514))),
    "program": tried(lambda: subprocess.run(["true"])),
    "shell": tried(lambda: os.system("true")),
    "fork": tried(os.fork),
    "imported": sorted({"apprise", "requests", "aiohttp", "sqlalchemy"} & set(sys.modules)),
}))
"""


async def test_the_guard_of_its_process_holds_for_every_kind_of_socket() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", ATTEMPTS, stdout=asyncio.subprocess.PIPE
    )
    written, _ = await process.communicate()

    assert json.loads(written) == {
        **dict.fromkeys(("loopback", "name", "mapped", "metadata", "unix"), "ForbiddenAddress"),
        "datagram": "ForbiddenAddress",
        **dict.fromkeys(("program", "shell", "fork"), "PermissionError"),
        "imported": [],
    }


async def test_admins_import_neither_apprise_nor_smtp_before_they_are_used() -> None:
    program = (
        "import sys, tickwheel_admin.channels.senders;"
        "print({'apprise', 'requests', 'aiosmtplib'} & set(sys.modules))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", program, stdout=asyncio.subprocess.PIPE
    )
    written, _ = await process.communicate()
    assert written == b"set()\n"


async def ask(program: str) -> Delivered | Undelivered:
    fake = AppriseSender(HERE, command=(sys.executable, "-I", "-c", program))
    return await fake.send(service(f"tgram://{SECRET}/1"), message())


async def test_the_url_is_in_no_process_list_and_the_key_of_secrets_in_no_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TICKWHEEL_SECRET_KEY", SECRET)
    told = await ask(
        "import json, os, sys; request = json.load(sys.stdin);"
        "found = open('/proc/self/cmdline').read() + repr(dict(os.environ));"
        "seen = request['url'][8:] in found or 'TICKWHEEL_SECRET_KEY' in os.environ;"
        "print(json.dumps({'outcome': 'taken', 'said': f'{seen} {os.getcwd()}'}))"
    )
    assert told == Delivered(answer="False /")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("print('{')", Undelivered(why="Apprise ended with 0, without an answer.")),
        ("raise SystemExit(3)", Undelivered(why="Apprise ended with 3, without an answer.")),
        ("print('[]')", Undelivered(why="Apprise could not send it, and did not say why.")),
        (
            'print(\'{"outcome": "missing"}\')',
            Undelivered(why="Apprise is not installed: pip install 'apprise>=1.9.2'"),
        ),
    ],
)
async def test_whatever_the_process_says(program: str, expected: Undelivered) -> None:
    assert await ask(program) == expected


def is_running(file: Path) -> bool:
    """Whether the process runs whose id is in the file, if it came as far as to write it."""
    return file.exists() and Path(f"/proc/{file.read_text()}").exists()


async def test_a_service_that_hangs_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sender, "SEND_SECONDS", 1.0)
    file = tmp_path / "pid"
    told = await ask(
        f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )

    assert isinstance(told, Undelivered)
    assert told.why.startswith("The service did not answer within")
    assert not is_running(file)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_neither_markdown_nor_html_nor_mentions(text: str) -> None:
    request = sender._request(
        compose(service("tgram://x/1"), hostile_message(text)), "tgram://x/1", []
    )

    body = request["body"]
    assert not set("<@`*[") & set(body + request["title"])
    assert "\n" not in request["title"]
    assert "://evil" not in body
    kinds = {
        child.type
        for each in MarkdownIt("commonmark", {"html": True}).parse(body.partition("\n\n-- ")[0])
        for child in [each, *(each.children or [])]
    }
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "softbreak"}
