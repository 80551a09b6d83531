"""A server in a thread that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "twa_test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class Scripted:
    """Answers in the order of the script."""

    url: str = ""
    answers: list[tuple[int, Any] | None] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def will(self, *answers: tuple[int, Any] | None) -> None:
        """Add answers: a status with its body, or None to break the connection off."""
        self.answers += answers


def error(code: str, message: str = "It cannot be done.", **more: Any) -> dict[str, Any]:
    """The body of an error."""
    told = {"code": code, "message": message, "problems": [], "correlation_id": "abc"}
    return {"error": told | more}


@contextmanager
def scripted(tls: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """A server on a free port of this machine, with or without TLS."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing among what commands print."""

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            script.asked.append(
                Asked(
                    method=self.command,
                    path=self.path,
                    headers=dict(self.headers),
                    body=json.loads(sent) if sent else None,
                )
            )
            answer = script.answers.pop(0)
            if answer is None:
                self.close_connection = True
                return
            status, body = answer
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            if status // 100 == 3:
                self.send_header("Location", "http://elsewhere.example/")
            self.end_headers()
            if status != 204:
                self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    if tls is not None:
        # The handshake is of the connection's thread, so that a refused one stops nobody.
        server.socket = tls.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
