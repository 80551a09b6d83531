"""One connection to one node: what a session needs of it, and the WebSocket that provides it."""

from __future__ import annotations

from typing import Protocol

from aiohttp import WSMsgType, web

_MAX_REASON_BYTES = 120  # a close frame holds 123


class NodeChannel(Protocol):
    """Frames in both directions until one side closes."""

    async def send(self, frame: bytes) -> None:
        """Hand over one frame; waits while the node is slow. Raises ConnectionError when closed."""
        ...

    async def receive(self) -> bytes | str | None:
        """The next frame; None for ever after the channel has closed."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether it is known, without reading, that the other end is closed."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """Close, telling the node why."""
        ...


class NodeWebSocket:
    """A channel over a WebSocket that a node opened."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def send(self, frame: bytes) -> None:
        await self._socket.send_frame(frame, WSMsgType.TEXT)

    async def receive(self) -> bytes | str | None:
        message = await self._socket.receive()
        if message.type is WSMsgType.TEXT:
            return str(message.data)
        if message.type is WSMsgType.BINARY:
            await self.close(1008, "frames are text")
        return None

    @property
    def is_gone(self) -> bool:
        # aiohttp closes it when a ping is not answered, also while nobody reads.
        return self._socket.closed

    async def close(self, code: int, reason: str) -> None:
        message = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore").encode()
        await self._socket.close(code=code, message=message)
