"""A real SMTP server, with TLS and logins."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "tickwheel", "pass-81f2c0d9"


@dataclass
class MailServer:
    """What it received; `refusals` are answers to a command instead of its own."""

    refusals: dict[str, str] = field(default_factory=dict)  # by command: MAIL, RCPT …, DATA
    received: list[Envelope] = field(default_factory=list)
    greetings: list[str] = field(default_factory=list)
    port: int = 0

    async def handle_EHLO(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, answers: list[str]
    ) -> list[str]:
        session.host_name = hostname
        self.greetings.append(hostname)
        return answers

    async def handle_RCPT(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        refusal = self.refusals.get(f"RCPT {address}") or self.refusals.get("RCPT")
        if refusal:
            return refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if refusal := self.refusals.get("DATA"):
            return refusal
        self.received.append(envelope)
        return "250 queued as 42"

    def authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        is_right = isinstance(data, LoginPassword) and (data.login, data.password) == (
            USER.encode(),
            PASSWORD.encode(),
        )
        return AuthResult(success=is_right, handled=False)


@asynccontextmanager
async def mail_server(
    *,
    starttls: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
    login: bool = False,
) -> AsyncIterator[MailServer]:
    """Listens on 127.0.0.1 until the end of the block."""
    server = MailServer()
    protocols: list[SMTP] = []

    def made() -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it does not see TLS that is there from the start
            protocols.append(
                SMTP(
                    server,
                    hostname="mail.example",
                    tls_context=starttls,
                    require_starttls=starttls is not None,
                    authenticator=server.authenticate,
                    auth_required=login,
                    auth_require_tls=tls is None,
                )
            )
        return protocols[-1]

    listening = await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0, ssl=tls)
    try:
        server.port = listening.sockets[0].getsockname()[1]
        yield server
    finally:
        listening.close()
        for each in protocols:
            if each.transport is not None:
                with suppress(AttributeError):  # Python 3.11.2 after a refused handshake
                    each.transport.abort()
        await asyncio.sleep(0)  # transports close in the next turn
        await listening.wait_closed()
