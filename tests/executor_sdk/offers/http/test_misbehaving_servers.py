"""Servers that break every rule: one clear sentence each, bounded memory, no hanging, no secret."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ssl
import struct
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.polling import wait_until_async
from tickwheel_executor import Executor
from tickwheel_executor.offers.http import Http
from tickwheel_executor.testing import FakeAdmin

from .conftest import Call, offer_with
from .server import Exchange, ScriptedServer

SECRET = "geheim"


def raw(data: bytes) -> Any:
    async def script(exchange: Exchange) -> None:
        await exchange.send(data)

    return script


def gzipped(body: bytes, *, cut: int = 0) -> bytes:
    packed = gzip.compress(body)
    packed = packed[: len(packed) - cut]
    head = f"HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
    return head.encode() + packed


async def endless_body(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await exchange.send(b"10000\r\n" + b"x" * 65_536 + b"\r\n")


async def drop_by_drop(exchange: Exchange) -> None:
    for byte in b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\nhello" * 1000:
        await exchange.send(bytes([byte]))
        await asyncio.sleep(0.05)


async def nothing(exchange: Exchange) -> None:
    await exchange.reader.read()


async def endless_hints(exchange: Exchange) -> None:
    while True:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
        await asyncio.sleep(0)


async def reset(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\nabc")
    raw_socket = exchange.writer.get_extra_info("socket")
    raw_socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: reset on close
    exchange.writer.transport.abort()


async def to_itself(exchange: Exchange) -> None:
    await exchange.answer(b"", 302, f"Location: {exchange.path}x")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (raw(b""), "closed the connection without an answer"),
        (raw(b"HELO geheim\r\n\r\n"), "does not answer as HTTP demands"),
        (raw(b"HTTP/1.1 200 X\r\nA: " + b"geheim" * 5_000 + b"\r\n\r\n"), "as HTTP demands"),
        (raw(b"HTTP/1.1 200 X\r\n" + b"A: 1\r\n" * 50_000 + b"\r\n"), "as HTTP demands"),
        (raw(b"HTTP/1.1 200 X\r\nContent-Length: -1\r\n\r\n"), "as HTTP demands"),
        (raw(b"HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nabc"), "breaks off before its end"),
        (
            raw(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n"),
            "as HTTP demands",
        ),
        (
            raw(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"),
            "breaks off before its end",
        ),
        (reset, "break"),
        (raw(gzipped(b"{}" * 1000, cut=12)), "compressed response ends too early"),
        (
            raw(b"HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: 6\r\n\r\nnozip!"),
            "cannot be decompressed",
        ),
        (
            raw(b"HTTP/1.1 200 X\r\nContent-Encoding: br\r\nContent-Length: 6\r\n\r\nbrotli"),
            "compressed with 'br'",
        ),
        (raw(b'HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\n{"a:'), "the response is not JSON"),
        (raw(b'HTTP/1.1 200 X\r\nContent-Length: 4\r\n\r\n"\xff\xfe"'), "is not JSON"),
        (raw(b"HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n"), "the response is empty"),
        (
            raw(b"HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000),
            "is not JSON",
        ),
        (
            raw(b"HTTP/1.1 200 X\r\nContent-Length: 5\r\n\r\n1e999"),
            "",  # msgspec calls it out of range, others infinite
        ),
        (endless_body, "its JSON is cut"),
        (raw(gzipped(b" " * 50_000_000)), "its JSON is cut"),
        (to_itself, "more than 10 redirects"),
        (
            raw(b"HTTP/1.1 302 X\r\nLocation: ftp://a/\r\nContent-Length: 0\r\n\r\n"),
            "no URL of http",
        ),
        (
            raw(b"HTTP/1.1 302 X\r\nLocation: http://[/\r\nContent-Length: 0\r\n\r\n"),
            "no URL of http",
        ),
        (
            raw(b"HTTP/1.1 302 X\r\nLocation: http://other.example/?geheim\r\n\r\n"),
            "redirects to another host, http://other.example/?…",
        ),
    ],
)
async def test_broken_answers(
    server: ScriptedServer, call: Call, script: Any, message: str
) -> None:
    server.script = script
    end = await call(url=f"{server.url}x?token={SECRET}", result="json")
    assert end.outcome == "failed"
    assert not end.final
    assert message in end.message
    assert SECRET not in end.message
    assert len(end.message) < 400
    assert not any("Traceback" in line for line in end.lines())


@pytest.mark.parametrize("script", [nothing, drop_by_drop, endless_hints])
async def test_slow_answers_end_at_the_timeout(
    server: ScriptedServer, call: Call, script: Any
) -> None:
    server.script = script
    end = await call(timeout_seconds=0.3)
    assert end.outcome == "failed"
    assert "has not answered completely within 0.3 s" in end.message


async def test_a_cancelled_call_closes_its_connection(
    server: ScriptedServer, tmp_path: Path
) -> None:
    server.script = nothing
    offers = [offer_with("127.0.0.1")]
    async with (
        FakeAdmin() as admin,
        Executor("a", admins=[admin.url], token=admin.token, spool_dir=tmp_path, offers=offers),
    ):
        run = await admin.begin("http", {"url": server.url, "timeout_seconds": 600})
        await wait_until_async(lambda: server.exchanges)
        await run.cancel()
        assert (await run.end()).outcome == "cancelled"
        await server.closed.wait()


@pytest.mark.parametrize("charset", ["utf-16", "nonsense", "punycode", "zlib", "idna", "utf-7"])
async def test_any_charset_makes_text(server: ScriptedServer, call: Call, charset: str) -> None:
    head = f"Content-Type: text/plain; charset={charset}\r\nContent-Length: 3\r\n\r\n"
    server.script = raw(b"HTTP/1.1 200 X\r\n" + head.encode() + b"\xff\xfea")
    end = await call(result="text")
    assert end.succeeded, end.message


async def test_a_wrong_status_says_more_than_a_broken_body(
    server: ScriptedServer, call: Call
) -> None:
    server.script = raw(b"HTTP/1.1 500 X\r\nContent-Length: 10\r\n\r\nabc")
    assert "answers 500; expected: 2xx" in (await call()).message


async def test_nobody_listens(call: Call) -> None:
    end = await call(url="http://127.0.0.1:1/")
    assert "cannot connect: Connect call failed" in end.message or "refused" in end.message


async def test_unknown_hosts(call: Call) -> None:
    end = await call(url=f"https://nobody.invalid/?token={SECRET}")
    assert "the host nobody.invalid is not known" in end.message


async def test_redirects_on_the_same_host_are_followed(server: ScriptedServer, call: Call) -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.path == "/":
            await exchange.answer(b"", 303, "Location: /done?id=1")
        else:
            await exchange.answer(b"ok")

    server.script = script
    end = await call(method="POST", json={"a": 1}, headers={"X-Key": "k"}, result="text")
    assert end.result["body"] == "ok"
    second = server.exchanges[1]
    assert second.head.startswith("GET /done?id=1 ")
    assert second.header("X-Key") == "k"
    assert second.header("Content-Type") is None

    end = await call(redirects="none", expected_status=[303])
    assert end.succeeded, end.message


async def test_headers_and_bodies_stay_at_the_host_they_are_for(
    server: ScriptedServer, call: Call
) -> None:
    other = ScriptedServer()
    await other.start()

    async def elsewhere(exchange: Exchange) -> None:
        status = 307 if exchange.head.startswith("POST") else 302
        await exchange.answer(b"", status, f"Location: {other.url}")

    async def welcome(exchange: Exchange) -> None:
        await exchange.answer(b"ok")

    server.script, other.script = elsewhere, welcome
    headers = {"X-Api-Key": SECRET, "Cookie": SECRET}
    end = await call(redirects="any_host", headers=headers, username="a", password=SECRET)
    assert end.succeeded, end.message
    assert SECRET not in other.exchanges[0].head
    assert other.exchanges[0].header("Authorization") is None

    end = await call(redirects="any_host", method="POST", body=SECRET)
    assert "wants the body to be sent to another host" in end.message
    assert len(other.exchanges) == 1
    await other.stop()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    """A certificate that no authority has signed, and a server's context with it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return path, context


async def test_certificates_are_verified(
    call: Call, certificate: tuple[Path, ssl.SSLContext]
) -> None:
    path, context = certificate
    server = ScriptedServer()
    await server.start(tls=context)

    async def welcome(exchange: Exchange) -> None:
        await exchange.answer(b"ok")

    server.script = welcome
    url = f"https://localhost:{server.port}/?token={SECRET}"
    end = await call(Http(private=["localhost"]), url=url)
    assert "the certificate of the server is refused: self-signed" in end.message
    assert SECRET not in end.message
    end = await call(Http(private=["localhost"], ca_file=path), url=url)
    assert end.succeeded, end.message
    end = await call(
        Http(private=["127.0.0.1"], ca_file=path), url=url.replace("localhost", "127.0.0.1")
    )
    assert "the certificate of the server is refused" in end.message
    await server.stop()


async def test_no_tls_where_tls_is_expected(call: Call) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n")
        await reader.read()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        end = await call(url=f"https://127.0.0.1:{port}/")
    assert "no TLS connection" in end.message
