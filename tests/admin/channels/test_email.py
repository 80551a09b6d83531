"""E-mails: what is in them, and real servers with TLS and logins, some of which refuse."""

from __future__ import annotations

import asyncio
import email
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.policy import SMTP, default
from html.parser import HTMLParser
from typing import Any

import pytest

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
from tests.admin.channels.mail_server import PASSWORD, USER, mail_server
from tests.admin.xxl_job.fake_names import FakeNames
from tickwheel_admin.channels.email import sender
from tickwheel_admin.channels.email.mime import email_message
from tickwheel_admin.channels.senders import Channels
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.domain.alarms.channel import Channel, ChannelKind
from tickwheel_admin.domain.alarms.message import AlarmMessage, Occasion
from tickwheel_admin.domain.network_guard import alarm_guard
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered


def mail_channel(
    port: int = 0, *, secrets: Mapping[str, str] | None = None, **settings: str
) -> Channel:
    known = {
        "host": "127.0.0.1",
        "port": str(port),
        "security": "starttls",
        "sender": "tickwheel@jobs.example",
        "recipients": "ops@example.com\nboss@example.com",
    }
    return channel(ChannelKind.EMAIL, settings={**known, **settings}, secrets=secrets or {})


async def sent(
    to: Channel, told: AlarmMessage | None = None, *, tls: ssl.SSLContext | None = None, **how: Any
) -> Delivered | Undelivered:
    channels = Channels(how.pop("guard", HERE), now=lambda: NOW, tls=tls, **how)
    try:
        return await channels.send(to, told or message())
    finally:
        await channels.close()


def mail_of(told: AlarmMessage, **changes: Any) -> EmailMessage:
    """As it arrives: written, and read again."""
    to = mail_channel(**changes)
    made = email_message(to, told, compose(to, told))
    read = email.message_from_bytes(made.as_bytes(policy=SMTP), policy=default)
    assert isinstance(read, EmailMessage)
    return read


class Html(HTMLParser):
    """Tags, addresses and text of a document."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_an_email_has_both_texts_and_its_thread() -> None:
    first = mail_of(message())
    later = mail_of(message(entry(occasion=Occasion.REPEATED), id="another"))

    assert first["Subject"] == "[Tickwheel prod-eu] Run failed: billing / nightly-report"
    assert first["From"] == "Tickwheel prod-eu <tickwheel@jobs.example>"
    assert first["To"] == "ops@example.com, boss@example.com"
    assert first["Date"] == "Sun, 29 Mar 2026 01:00:00 +0000"
    assert first["Auto-Submitted"] == "auto-generated"
    assert first["Message-ID"] == "<0b9f3c52-message@jobs.example>"
    assert later["Message-ID"] != first["Message-ID"]
    assert first["In-Reply-To"] == later["In-Reply-To"] == first["References"]
    assert first["In-Reply-To"].startswith("<alarm-12.")
    plain, page = first.get_body(("plain",)), first.get_body(("html",))
    assert plain is not None
    assert page is not None
    assert "Last error: ValueError: no such order\r\n" in plain.get_content()
    assert f"{BASE}/runs/77/retry" in Html(page.get_content()).links


def test_a_digest_is_bounded() -> None:
    long = entry(own_text="好" * 5_000, error_line="好" * 5_000)
    mail = mail_of(message(*[long] * 50, covered=400))
    assert "more" in mail.as_string()
    assert len(mail.as_bytes()) < 1_500_000


def test_a_digest_refers_to_its_alarms() -> None:
    mail = mail_of(message(entry(), entry(alarm_id=13)))
    assert len(mail["References"].split()) == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_add_no_header_and_no_markup(text: str) -> None:
    mail = mail_of(hostile_message(text))

    assert sorted(mail.keys()) == sorted(mail_of(message(entry(), entry(alarm_id=13))).keys())
    assert mail["To"] == "ops@example.com, boss@example.com"
    assert mail["From"].addresses[0].addr_spec == "tickwheel@jobs.example"
    page = mail.get_body(("html",))
    assert page is not None
    html = Html(page.get_content())
    assert html.tags <= {
        "html", "head", "meta", "title", "body", "p", "strong", "br", "table", "tr", "td", "div",
        "a", "span", "hr",
    }  # fmt: skip
    assert html.attributes <= {"lang", "charset", "style", "dir", "href"}
    assert html.links == {f"{BASE}/runs/77", f"{BASE}/alarms"}
    if text.isascii() and text.isprintable() and "<" in text:
        assert text in html.text


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_it_arrives_over_tls_with_a_login(security: str) -> None:
    own = {"starttls": server_tls()} if security == "starttls" else {"tls": server_tls()}
    async with mail_server(**own, login=True) as server:
        to = mail_channel(
            server.port, security=security, username=USER, secrets={"password": PASSWORD}
        )
        told = await sent(to, tls=trusting_tls())
        wrong = await sent(
            mail_channel(
                server.port, security=security, username=USER, secrets={"password": SECRET}
            ),
            tls=trusting_tls(),
        )

    assert told == Delivered(answer="queued as 42")
    [envelope] = server.received
    assert envelope.mail_from == "tickwheel@jobs.example"
    assert envelope.rcpt_tos == ["ops@example.com", "boss@example.com"]
    assert server.greetings[0] == "[127.0.0.1]"
    assert isinstance(wrong, Undelivered)
    assert wrong.permanent
    assert "535" in wrong.why
    assert SECRET not in repr(wrong)


async def test_certificates_are_verified_for_the_name_that_was_asked_for() -> None:
    names = FakeNames({"mail.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]})
    async with mail_server(starttls=server_tls()) as server:
        untrusted = await sent(mail_channel(server.port))
        other = await sent(
            mail_channel(server.port, host="other.example"), tls=trusting_tls(), resolver=names
        )
        right = await sent(
            mail_channel(server.port, host="mail.example"), tls=trusting_tls(), resolver=names
        )

    for told in (untrusted, other):
        assert isinstance(told, Undelivered)
        assert "certificate" in told.why.lower()
    assert isinstance(right, Delivered)
    assert len(server.received) == 1


async def test_without_tls_only_where_somebody_chose_it_and_never_with_a_password() -> None:
    async with mail_server() as server:
        stripped = await sent(mail_channel(server.port))
        plain = await sent(
            mail_channel(
                server.port, security="none", username=USER, secrets={"password": PASSWORD}
            )
        )

    assert isinstance(stripped, Undelivered)
    assert "STARTTLS" in stripped.why.upper()
    assert isinstance(plain, Delivered)
    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("refusals", "permanent"),
    [
        ({"RCPT": "451 try later"}, False),
        ({"RCPT": "550 no such user"}, True),
        ({"RCPT ops@example.com": "451 later", "RCPT boss@example.com": "550 no"}, False),
        ({"DATA": "452 disk full"}, False),
        ({"DATA": "554 looks like spam"}, True),
    ],
)
async def test_refusals_pass_or_stay(refusals: dict[str, str], permanent: bool) -> None:
    async with mail_server() as server:
        server.refusals = refusals
        told = await sent(mail_channel(server.port, security="none"))

    assert isinstance(told, Undelivered)
    assert told.permanent is permanent
    assert next(iter(refusals.values())) in told.why


async def test_who_was_refused_is_told_when_others_got_it() -> None:
    async with mail_server() as server:
        server.refusals = {"RCPT boss@example.com": "550 gone"}
        told = await sent(mail_channel(server.port, security="none"))

    assert isinstance(told, Delivered)
    assert "boss@example.com: 550 gone" in told.answer
    assert len(server.received) == 1


async def test_a_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "COMMAND_SECONDS", 0.2)

    ended = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        told = await sent(mail_channel(port, security="none"))
        await ended.wait()  # what was opened here is closed here
    finally:
        server.close()
        await server.wait_closed()

    assert told == Undelivered(why="The mail server did not answer in time.")


async def test_servers_inside_are_not_called_however_their_name_resolves() -> None:
    names = FakeNames({"mail.example": [["127.0.0.1"], ["169.254.169.254"]]})
    async with mail_server() as server:
        to = mail_channel(server.port, security="none", host="mail.example")
        told = [
            await sent(mail_channel(server.port, security="none"), guard=alarm_guard([])),
            await sent(to, guard=alarm_guard([]), resolver=names),
            await sent(to, resolver=names),
        ]

    assert not server.received
    for each in told:
        assert isinstance(each, Undelivered)
        assert each.why.startswith("Not called: ")
