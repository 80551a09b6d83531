"""One connection to one admin: the interface that a Link needs, and its WebSocket."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import aiohttp

from tickwheel_executor.errors import ConnectError
from tickwheel_executor.process import forks
from tickwheel_executor.tls import TlsSettings
from tickwheel_shared.protocol import LINK_PATH, MAX_FRAME_BYTES

from .unreachable import explain

_PING_SECONDS = 10  # with aiohttp's half of it to wait for a pong: dead after 15 s of silence
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s
_SYSTEM_TLS = TlsSettings()
_MAX_REASON_BYTES = 123  # RFC 6455: a close frame has no room for more


class AdminChannel(Protocol):
    """Frames in both directions, in order, until one side closes.

    A channel notices by itself that the other end is gone (nothing came for 15 s, not even a
    pong). Then, and after `close` or `abort`, a pending `receive` returns None.
    """

    @property
    def close_reason(self) -> str:
        """Why it closed, for a log line; empty while it is open."""

    async def send(self, frame: bytes) -> None:
        """Hand over one frame; waits while the other end is slow.

        Raises:
            ConnectError: the channel is closed.
        """

    async def receive(self) -> bytes | str | None:
        """The next frame; None for ever after the channel has closed."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close gracefully: what was sent arrives first."""

    def abort(self) -> None:
        """Break off at once: what was sent and has not arrived must not arrive later."""


# Opens a channel to an admin: (base URL, token) → AdminChannel.
# Raises ConnectError, or UnauthorizedError when the admin answers 401 or 403.
Connect = Callable[[str, str], Awaitable[AdminChannel]]


async def connect(url: str, token: str, *, tls: TlsSettings = _SYSTEM_TLS) -> AdminChannel:
    """Open a WebSocket to the admin with this base URL."""
    ssl = tls.context()
    # The node itself limits the time to connect; aiohttp's total of 5 minutes must not end a
    # long-lived socket.
    session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
    try:
        socket_ = await session.ws_connect(
            url + LINK_PATH,
            headers={"Authorization": f"Bearer {token}"},
            heartbeat=_PING_SECONDS,
            max_msg_size=MAX_FRAME_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=2.0),
            ssl=ssl,
        )
    except (aiohttp.ClientError, OSError, ValueError) as error:
        await session.close()
        raise explain(error, url) from error
    except BaseException:  # cancelled, perhaps by a time limit: leave no open session behind
        await session.close()
        raise
    return AdminSocket(session, socket_)


class AdminSocket:
    """An AdminChannel over aiohttp's client WebSocket."""

    def __init__(
        self, session: aiohttp.ClientSession, socket_: aiohttp.ClientWebSocketResponse
    ) -> None:
        self._session = session
        self._socket = socket_
        self._reason = ""
        self._ending: asyncio.Task[None] | None = None  # after abort
        self._closing: asyncio.Future[None] | None = None  # our own close
        forks.watch(self)

    @property
    def close_reason(self) -> str:
        """Why it closed."""
        return self._reason

    async def send(self, frame: bytes) -> None:
        """Send one text message. It is UTF-8 already, so send_str would only encode it again."""
        try:
            await self._socket.send_frame(frame, aiohttp.WSMsgType.TEXT)
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise ConnectError(str(error) or type(error).__name__) from error

    async def receive(self) -> bytes | str | None:
        """The next message; closes the session when there is none."""
        message = await self._socket.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            text: str = message.data
            return text
        if message.type is aiohttp.WSMsgType.BINARY:
            await self.close(1008, "a binary message; frames are text")
            return None
        if self._closing is not None:
            await asyncio.shield(self._closing)  # a cancelled reader must not interrupt it
            return None
        if not self._reason:
            self._reason = self._describe(message)
        await self._session.close()
        return None

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Send a close frame and wait at most 2 s for the answer."""
        if self._closing is not None:
            return
        self._closing = asyncio.get_running_loop().create_future()
        self._reason = self._reason or reason or f"closed with {code}"
        message = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore").encode()
        try:
            await self._socket.close(code=code, message=message)
        finally:
            self._closing.set_result(None)
            await self._session.close()

    def abort(self) -> None:
        """Reset the connection, so that the system drops its buffers too."""
        self._reason = self._reason or "broken off"
        raw: socket.socket | None = self._socket.get_extra_info("socket")
        if raw is not None:
            with suppress(OSError):  # closed already
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                raw.shutdown(socket.SHUT_RDWR)  # wakes the reader; what is buffered is lost
        if self._ending is None:  # perhaps nobody is reading
            self._ending = asyncio.get_running_loop().create_task(self._give_back())

    async def _give_back(self) -> None:
        try:
            await self._session.close()
        finally:
            await self._socket.close()  # sends nothing any more, and lets go of the connection

    def forked(self) -> None:
        """In a child: the connection belongs to the parent and must end with it."""
        raw: socket.socket | None = self._socket.get_extra_info("socket")
        if raw is not None:
            forks.release_file(raw.fileno())

    def _describe(self, message: aiohttp.WSMessage) -> str:
        code = self._socket.close_code
        if message.type is aiohttp.WSMsgType.CLOSE and message.extra:
            return f"the admin closed with {code}: {message.extra}"
        error = self._socket.exception()
        if isinstance(error, asyncio.TimeoutError | aiohttp.ServerTimeoutError):
            return "nothing came for 15 s"
        if error is not None:
            return f"{type(error).__name__}: {error}"
        return "the connection broke" if code in (None, 1006) else f"the admin closed with {code}"
