"""An HTTP server that misbehaves as told: bytes go out as they are written in the test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

Script = Callable[["Exchange"], Awaitable[None]]


@dataclass(slots=True)
class Exchange:
    """One connection: what came, and how to answer."""

    head: str  # request line and headers
    body: bytes
    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader

    @property
    def path(self) -> str:
        return self.head.split(" ")[1]

    def header(self, name: str) -> str | None:
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes = b"", status: int = 200, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers, "", ""]
        await self.send("\r\n".join(lines).encode() + body)


@dataclass(slots=True)
class ScriptedServer:
    """Listens on 127.0.0.1; `script` answers every request."""

    script: Script | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)  # a client has gone
    port: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                exchange = Exchange(head, b"", writer, reader)
                if length := exchange.header("Content-Length"):
                    exchange.body = await reader.readexactly(int(length))
                self.exchanges.append(exchange)
                assert self.script is not None
                await self.script(exchange)
        except asyncio.CancelledError:  # the test is over
            pass
        finally:
            self._open.discard(task)
            self.closed.set()
            writer.transport.abort() if writer.is_closing() else writer.close()
