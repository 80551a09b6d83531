"""The fault proxy does what the drills believe it does."""

from __future__ import annotations

import os
import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from tests.drill.proxy import FaultProxy, process_of
from tests.support.polling import wait_until

pytestmark = pytest.mark.e2e


class Echo(socketserver.BaseRequestHandler):
    """Answers every piece with itself."""

    def handle(self) -> None:
        while data := self.request.recv(1024):
            self.request.sendall(data)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A reset is no news here."""


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    with Server(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        names = iter(("ann", "bob", "ann again"))
        with FaultProxy(server.server_address[1], owner=lambda port: next(names)) as proxy:
            yield proxy
        server.shutdown()
        thread.join()


def connected(proxy: FaultProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=10)


def said(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(1024)


def hears_nothing(client: socket.socket) -> bool:
    client.settimeout(0.3)
    try:
        client.recv(1)
    except TimeoutError:
        client.settimeout(10)
        return True
    return False


def test_it_passes_on_and_cuts_one_owner(proxy: FaultProxy) -> None:
    with connected(proxy) as ann, connected(proxy) as bob:
        assert said(ann, b"one") == b"one"
        assert said(bob, b"two") == b"two"
        assert (proxy.connections(), proxy.connections("ann")) == (2, 1)
        assert proxy.cut("ann") == 1
        with pytest.raises(ConnectionResetError):
            ann.recv(1)
        assert said(bob, b"three") == b"three"
    wait_until(lambda: proxy.connections() == 0)


def test_what_is_held_back_arrives_later(proxy: FaultProxy) -> None:
    with connected(proxy) as ann, connected(proxy) as bob:
        assert said(ann, b"one") == b"one"
        assert said(bob, b"two") == b"two"
        proxy.hold("ann")
        ann.sendall(b"late")
        assert said(bob, b"three") == b"three"
        assert hears_nothing(ann)
        proxy.release("ann")
        assert ann.recv(1024) == b"late"

        proxy.hold()
        with connected(proxy) as again:  # the kernel accepts; nobody is there
            again.sendall(b"hello")
            assert hears_nothing(again)
            proxy.release()
            assert again.recv(1024) == b"hello"


def test_lost_answers_never_arrive(proxy: FaultProxy) -> None:
    with connected(proxy) as ann:
        assert said(ann, b"one") == b"one"
        proxy.lose_answers("ann")
        ann.sendall(b"done?")
        assert hears_nothing(ann)
        proxy.keep_answers("ann")
        with pytest.raises(ConnectionResetError):
            ann.recv(1)


def test_a_port_tells_its_process() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        with socket.create_connection(listening.getsockname()) as client:
            port = client.getsockname()[1]
            assert process_of(port, [1, os.getpid()]) == os.getpid()
            assert process_of(port, []) is None
