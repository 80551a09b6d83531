"""The certificate is replaced under connections that stay; a bad one changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog
from aiohttp import web

from tests.support.certificates import Authority
from tickwheel_admin.config_tls import TlsFiles
from tickwheel_admin.web.server import bind, create_runner, serve
from tickwheel_admin.web.tls import ServerTls

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Listening:
    """A server of one page over TLS, which says who its client is."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "tls")
        cert, key = self.authority.issue("admin")
        self.files = TlsFiles(cert=cert, key=key, client_ca=self.authority.file)
        self.tls = ServerTls(self.files)
        self.port = 0
        self.opened: list[asyncio.StreamWriter] = []

    def look_twice(self) -> None:
        """As the admin does every few seconds."""
        self.tls.look_again()
        self.tls.look_again()

    async def connect(
        self,
        client: tuple[Path, Path] | None = None,
        *,
        name: str | None = "localhost",
        looks: bool = True,
    ) -> Streams:
        """A connection of this client.

        Args:
            name: the host that it names.
            looks: whether it looks at the server's own certificate.
        """
        context = ssl.create_default_context(cafile=str(self.authority.file))
        context.check_hostname = looks and name is not None
        context.verify_mode = ssl.CERT_REQUIRED if looks else ssl.CERT_NONE
        if client is not None:
            context.load_cert_chain(*client)
        streams = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context, server_hostname=name or ""
        )
        self.opened.append(streams[1])
        return streams

    async def close(self) -> None:
        for writer in self.opened:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def who_am_i(streams: Streams) -> str:
    reader, writer = streams
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    return (await reader.readexactly(length)).decode()


def shown(streams: Streams) -> bytes:
    """The certificate that a connection began with."""
    found = streams[1].get_extra_info("ssl_object").getpeercert(binary_form=True)
    return bytes(found)


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[Listening]:
    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        return web.Response(text=str(certificate["subject"][0][0][1] if certificate else "nobody"))

    app = web.Application()
    app.router.add_get("/", answer)
    listening = Listening(tmp_path)
    runner = create_runner(app, shutdown_seconds=0.2)
    await runner.setup()
    sockets = bind("127.0.0.1", 0)
    listening.port = sockets[0].getsockname()[1]
    await serve(runner, sockets, header_seconds=0.5, tls=listening.tls.context)
    yield listening
    await listening.close()
    await runner.cleanup()


async def test_a_new_certificate_is_taken_without_breaking_connections(
    listening: Listening,
) -> None:
    before = await listening.connect()
    expires_at = listening.tls.status().expires_at
    listening.authority.issue("admin", days=200)

    listening.tls.look_again()
    assert shown(await listening.connect()) == shown(before), "it may be half written"
    listening.tls.look_again()
    after = await listening.connect()
    nameless = await listening.connect(name=None)

    assert shown(after) != shown(before)
    assert shown(nameless) == shown(after), "also in handshakes that name no host"
    assert [await who_am_i(each) for each in (before, after)] == ["nobody", "nobody"]
    assert listening.tls.status().expires_at > expires_at


async def test_bad_files_leave_the_old_ones_in_use_and_are_told(listening: Listening) -> None:
    before = shown(await listening.connect())
    listening.files.key.write_text("nothing")
    with structlog.testing.capture_logs() as logged:
        listening.look_twice()
        listening.look_twice()

    assert [each["event"] for each in logged] == ["tls.files_refused"], "told once"
    assert "admin.key holds no private key" in listening.tls.status().problem
    assert shown(await listening.connect()) == before

    listening.files.cert.unlink()
    listening.look_twice()
    assert "cannot be read" in listening.tls.status().problem
    listening.authority.issue("admin")
    listening.look_twice()
    assert listening.tls.status().problem == ""
    assert shown(await listening.connect()) != before


async def test_clients_show_certificates_that_the_authority_has_signed(
    listening: Listening, tmp_path: Path
) -> None:
    node = listening.authority.issue("node-1")
    assert await who_am_i(await listening.connect(node)) == "node-1"
    assert await who_am_i(await listening.connect()) == "nobody"

    strangers = Authority(tmp_path / "strangers", "strangers")
    expired = listening.authority.issue("expired", days=-1)
    for refused in (strangers.issue("node-1"), expired):
        with pytest.raises((OSError, EOFError)):
            await who_am_i(await listening.connect(refused))

    # Another authority takes the place of this one: what it has signed is refused from now on.
    assert listening.files.client_ca is not None
    listening.files.client_ca.write_bytes(strangers.file.read_bytes())
    listening.look_twice()
    newcomer = strangers.issue("node-2")
    assert await who_am_i(await listening.connect(newcomer, looks=False)) == "node-2"
    with pytest.raises((OSError, EOFError)):
        await who_am_i(await listening.connect(node, looks=False))


async def test_a_handshake_that_never_ends_is_cut_off(listening: Listening) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", listening.port)
    writer.write(b"\x16\x03\x01")
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
    writer.close()
