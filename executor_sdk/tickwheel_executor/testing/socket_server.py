"""The WebSocket server of a fake admin, on a free port of 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from aiohttp import WSMsgType, web

from tickwheel_shared.protocol import (
    LINK_PATH,
    MAX_FRAME_BYTES,
    FrameError,
    Message,
    decode_from_node,
    encode_frames,
)

from .session import FakeAdminState, FakeSession

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s
_CLOSE_SECONDS = 2.0


class SocketServer:
    """Listens, and has a FakeSession with every node that knows the token."""

    def __init__(
        self, state: FakeAdminState, *, knows: Callable[[str], bool], on_change: Callable[[], None]
    ) -> None:
        self._state = state
        self._knows = knows  # whether this token is accepted
        self._on_change = on_change
        self._runner: web.AppRunner | None = None
        self._sockets: dict[FakeSession, _Socket] = {}
        self.add_routes: Callable[[web.UrlDispatcher], None] = lambda router: None
        self.port = 0  # chosen on the first start, then kept

    @property
    def sessions(self) -> list[FakeSession]:
        """Sessions of the connected nodes, oldest first."""
        return list(self._sockets)

    async def listen(self) -> None:
        """Start to listen."""
        app = web.Application()
        app.router.add_get(LINK_PATH, self._link)
        self.add_routes(app.router)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close every socket gracefully and stop listening."""
        await asyncio.gather(*(each.close() for each in self._sockets.values()))
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def break_off(self) -> None:
        """Reset every socket: what has not arrived is lost."""
        for each in list(self._sockets.values()):
            each.reset()

    async def _link(self, request: web.Request) -> web.StreamResponse:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not self._knows(token):
            return web.Response(status=401)
        channel = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES, heartbeat=10)
        await channel.prepare(request)
        socket_ = _Socket(channel, request.transport)
        session = FakeSession(self._state, socket_.send, on_change=self._on_change)
        self._sockets[session] = socket_
        writer = asyncio.get_running_loop().create_task(socket_.write())
        try:
            await self._serve(channel, session)
        finally:
            writer.cancel()
            del self._sockets[session]
            self._on_change()
        return channel

    async def _serve(self, channel: web.WebSocketResponse, session: FakeSession) -> None:
        async for frame in channel:
            if frame.type is not WSMsgType.TEXT:
                break
            try:
                for message in decode_from_node(frame.data):
                    session.take(message)
            except FrameError as error:
                await channel.close(code=1008, message=str(error).encode()[:120])


class _Socket:
    """Sends queued messages in order, all that are queued as one frame."""

    def __init__(self, channel: web.WebSocketResponse, transport: asyncio.Transport | None) -> None:
        self._channel = channel
        self._transport = transport
        self._outbox: list[Message] = []
        self._wake = asyncio.Event()

    def send(self, message: Message) -> None:
        self._outbox.append(message)
        self._wake.set()

    async def write(self) -> None:
        with suppress(ConnectionError, RuntimeError):  # closed; the reader notices as well
            while True:
                await self._wake.wait()
                self._wake.clear()
                messages, self._outbox = self._outbox, []
                for frame in encode_frames(messages):
                    await self._channel.send_str(frame.decode())

    async def close(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._channel.close(code=1001, message=b"the admin goes away")

    def reset(self) -> None:
        if self._transport is None:
            return
        raw: socket.socket | None = self._transport.get_extra_info("socket")
        if raw is not None:
            with suppress(OSError):  # closed already
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()
