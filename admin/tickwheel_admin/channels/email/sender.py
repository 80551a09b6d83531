"""Sends e-mails by SMTP: TLS from the start, STARTTLS, or in clear where somebody chose that.

With STARTTLS nothing is sent before the encryption; a server that does not offer it is refused.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING

from aiohttp.abc import AbstractResolver

from tickwheel_admin.channels.email.mime import email_message, recipients_of
from tickwheel_admin.channels.masking import told
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.domain.alarms.channel import Channel
from tickwheel_admin.domain.alarms.channel_fields import DEFAULT_PORTS, NO_TLS, STARTTLS, TLS
from tickwheel_admin.domain.alarms.message import AlarmMessage
from tickwheel_admin.domain.network_guard import AddressGuard, ForbiddenAddress
from tickwheel_admin.engine.alarms.ports import Delivered, Undelivered

if TYPE_CHECKING:
    import aiosmtplib

CONNECT_SECONDS = 10.0
COMMAND_SECONDS = 15.0
_REFUSED_FOR_GOOD = 500  # codes from here on


class EmailSender:
    """One connection for each message: alarms are rare, and servers close idle connections.

    Args:
        guard: which addresses may be called.
        resolver: of names; gives only addresses that may be called.
        tls: whom to trust; None: the system's authorities.
    """

    def __init__(
        self, guard: AddressGuard, resolver: AbstractResolver, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self._guard = guard
        self._resolver = resolver
        self._trusted = tls

    async def send(self, channel: Channel, message: AlarmMessage) -> Delivered | Undelivered:
        """Send one message."""
        import aiosmtplib  # takes a moment, and is needed only where a channel is for e-mail

        try:
            return await self._send(channel, message)
        except ForbiddenAddress as error:  # another admin's configuration may allow it
            return Undelivered(why=told(f"Not called: {error}", channel))
        except aiosmtplib.SMTPRecipientsRefused as error:
            codes = [each.code for each in error.recipients]
            said = "; ".join(f"{each.recipient}: {_said(each)}" for each in error.recipients)
            return _refused(channel, f"All recipients were refused: {said}", min(codes))
        except aiosmtplib.SMTPNotSupported as error:
            why = told(f"The server cannot do this: {error}", channel)
            return Undelivered(why=why, permanent=True)
        except aiosmtplib.SMTPResponseException as error:
            return _refused(channel, _said(error), error.code)
        except TimeoutError:  # aiosmtplib's are of this class as well
            return Undelivered(why="The mail server did not answer in time.")
        except ssl.SSLCertVerificationError as error:
            return Undelivered(why=told(f"The certificate is refused: {error}", channel))
        except aiosmtplib.SMTPConnectError as error:
            why = told(f"No connection: {error.__cause__ or error}", channel)
            return Undelivered(why=why)
        except (aiosmtplib.SMTPException, OSError) as error:
            return Undelivered(why=told(f"{type(error).__name__}: {error}", channel))

    async def _send(self, channel: Channel, message: AlarmMessage) -> Delivered:
        import aiosmtplib

        settings = channel.settings
        security = settings.get("security", STARTTLS)
        mail = email_message(channel, message, compose(channel, message))
        connection = await self._connect(
            settings["host"], int(settings.get("port") or DEFAULT_PORTS[security])
        )
        client = self._client(channel, security, connection)
        transport: asyncio.BaseTransport | None = None
        try:
            await client.connect()
            transport = client.transport
            if security != NO_TLS and "username" in settings:
                await client.login(settings["username"], channel.secrets.get("password", ""))
            refused, said = await client.send_message(
                mail, sender=settings["sender"], recipients=recipients_of(channel)
            )
            # The message is theirs now: how the connection ends does not matter any more.
            with suppress(aiosmtplib.SMTPException, OSError):
                await client.quit()
        finally:
            client.close()
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()  # without waiting for an end of TLS that may never come
        if refused:
            names = "; ".join(
                f"{name}: {answer.code} {answer.message}" for name, answer in refused.items()
            )
            said = f"{said}; refused were {names}"
        return Delivered(answer=told(said, channel))

    def _client(
        self, channel: Channel, security: str, connection: socket.socket
    ) -> aiosmtplib.SMTP:
        import aiosmtplib

        return aiosmtplib.SMTP(
            hostname=channel.settings["host"],
            sock=connection,
            use_tls=security == TLS,
            start_tls=security == STARTTLS,
            tls_context=self._tls(),
            local_hostname=_local_name(connection),
            timeout=COMMAND_SECONDS,
        )

    def _tls(self) -> ssl.SSLContext:
        """Made once: reading the system's authorities takes some 20 ms."""
        if self._trusted is None:
            self._trusted = ssl.create_default_context()
        return self._trusted

    async def _connect(self, host: str, port: int) -> socket.socket:
        """A connection to the first address that answers, of those that may be called."""
        failure: OSError = OSError("no address")
        async with asyncio.timeout(CONNECT_SECONDS):
            for family, address in await self._addresses(host, port):
                found = socket.socket(family, socket.SOCK_STREAM)
                found.setblocking(False)
                try:
                    await asyncio.get_running_loop().sock_connect(found, (address, port))
                except OSError as error:
                    found.close()
                    failure = error
                except BaseException:  # also when it is cancelled: nobody else would close it
                    found.close()
                    raise
                else:
                    return found
        raise failure

    async def _addresses(self, host: str, port: int) -> Sequence[tuple[int, str]]:
        try:
            literal = ip_address(host)
        except ValueError:
            found = await self._resolver.resolve(host, port, socket.AF_UNSPEC)
            return [(each["family"], each["host"]) for each in found]
        self._guard.check(literal)
        return [(socket.AF_INET if literal.version == 4 else socket.AF_INET6, str(literal))]


def _local_name(connection: socket.socket) -> str:
    """How we greet: by our address, which needs no name server (RFC 5321 §4.1.3)."""
    address = str(connection.getsockname()[0]).partition("%")[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"


def _said(error: aiosmtplib.SMTPResponseException) -> str:
    return f"{error.code} {error.message}"


def _refused(channel: Channel, said: str, code: int) -> Undelivered:
    return Undelivered(why=told(said, channel), permanent=code >= _REFUSED_FOR_GOOD)
