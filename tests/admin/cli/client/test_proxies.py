"""Proxies of the environment: who is asked, what they are told, and what never goes to them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.admin.channels.certificates import certificate_pem, server_tls
from tests.admin.cli.client.scripted import TOKEN, scripted
from tickwheel_admin.cli.client import proxies
from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.errors import NotReached, UsageFailure
from tickwheel_admin.cli.client.proxies import route_to
from tickwheel_admin.cli.client.target import Target


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextmanager
def tunnelling(answer: str, to_port: int) -> Iterator[tuple[int, list[str]]]:
    """A proxy that takes one CONNECT and passes bytes on; its port, and the heads it was sent."""
    heads: list[str] = []

    def passed(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # whoever is done first closes
            while piece := source.recv(65_536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        client, _ = listener.accept()
        with client:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1)
            heads.append(head.decode())
            client.sendall(f"HTTP/1.1 {answer}\r\n\r\n".encode())
            if not answer.startswith("200"):
                return
            with socket.create_connection(("127.0.0.1", to_port)) as server:
                back = threading.Thread(target=passed, args=(server, client))
                back.start()
                passed(client, server)
                back.join()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], heads
        thread.join()


def test_plain_http_is_asked_of_the_proxy_with_the_whole_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with scripted() as proxy:
        address = proxy.url.removeprefix("http://")
        monkeypatch.setenv("HTTP_PROXY", f"http://olga:p%40ss@{address}")
        proxy.will((200, {"id": 7}), (200, {"id": 8}))
        target = Target(urls=("http://admin.example:8500/base",), token=TOKEN, ca_file=None)
        with AdminApi(target) as api:
            assert api.get("/jobs/7") == {"id": 7}
            assert api.get("/jobs/8") == {"id": 8}
    for number, asked in enumerate(proxy.asked, 7):
        assert asked.path == f"http://admin.example:8500/base/api/v1/jobs/{number}"
        assert asked.headers["Host"] == "admin.example:8500"
        assert asked.headers["Proxy-Authorization"] == "Basic b2xnYTpwQHNz"  # olga:p@ss


def test_https_goes_through_a_tunnel_and_the_proxy_sees_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "_is_here", lambda host: False)
    file = tmp_path / "ca.pem"
    file.write_bytes(certificate_pem())
    with scripted(server_tls()) as server:
        server.will((200, {"id": 7}))
        target = Target(urls=(server.url,), token=TOKEN, ca_file=str(file))
        port = int(server.url.rpartition(":")[2])
        with tunnelling("200 Connected", port) as (at, heads):
            monkeypatch.setenv("https_proxy", f"http://olga:secret@127.0.0.1:{at}")
            with AdminApi(target) as api:
                assert api.get("/jobs/7") == {"id": 7}
    (head,) = heads
    assert head.startswith(f"CONNECT {server.url.removeprefix('https://')} ")
    assert "Proxy-Authorization: Basic" in head
    assert TOKEN not in head
    (asked,) = server.asked
    assert asked.path == "/api/v1/jobs/7"
    assert "Proxy-Authorization" not in asked.headers


def test_a_proxy_that_refuses_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target(urls=("https://admin.example",), token=TOKEN, ca_file=None)
    with tunnelling("403 Forbidden", 0) as (at, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"http://olga:secret@127.0.0.1:{at}")
        with AdminApi(target) as api, pytest.raises(NotReached) as told:
            api.post("/jobs/7/pause")
    assert heads[0].startswith("CONNECT admin.example:443 ")
    assert f"(through the proxy 127.0.0.1:{at})" in str(told.value)
    assert "403" in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    ("url", "no_proxy", "through"),
    [
        ("https://admin.example", "", True),
        ("https://admin.example", "other.example", True),
        ("https://admin.example", ".example", False),
        ("https://admin.example:8500", "admin.example:8500", False),
        ("https://admin.example", "*", False),
        ("https://127.0.0.1:8500", "", False),
        ("https://localhost:8500", "", False),
        ("https://[::1]:8500", "", False),
        ("http://admin.example", "", False),  # HTTP_PROXY is another variable
    ],
)
def test_who_is_asked_through_the_proxy(
    url: str, no_proxy: str, through: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert route_to(url).proxy == (("proxy.example", 3128) if through else None)


@pytest.mark.parametrize("proxy", ["socks5://a:1080", "https://a", "http://", "http://a:x"])
def test_a_proxy_that_cannot_be_used_is_refused(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(UsageFailure, match="HTTPS_PROXY must be"):
        route_to("https://admin.example")
