"""A connection and a spool in memory, for a node that lives for one run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tickwheel_executor.errors import ConnectError
from tickwheel_shared.protocol import Message, Result, decode_from_node, encode_frames

from .session import FakeAdminState, FakeSession


class MemoryChannel:
    """An AdminChannel whose other end is a FakeSession."""

    def __init__(self, state: FakeAdminState, *, on_change: Callable[[], None]) -> None:
        self.session = FakeSession(state, self.deliver, on_change=on_change)
        self.incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed: tuple[int, str] | None = None  # code and reason

    @property
    def close_reason(self) -> str:
        """Why it closed."""
        return self.closed[1] if self.closed is not None else ""

    def deliver(self, *messages: Message) -> None:
        """Send messages to the node."""
        for frame in encode_frames(messages):
            self.incoming.put_nowait(frame)

    async def send(self, frame: bytes) -> None:
        """Hand over one frame; it is answered at once."""
        if self.closed is not None:
            raise ConnectError(self.close_reason or "closed")
        for message in decode_from_node(frame):
            self.session.take(message)

    async def receive(self) -> bytes | None:
        """The next frame; None after the last one."""
        if self.closed is not None and self.incoming.empty():
            return None
        return await self.incoming.get()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it; what was sent before still arrives."""
        if self.closed is None:
            self.closed = (code, reason)
            self.incoming.put_nowait(None)

    def abort(self) -> None:
        """Break it off; what was sent and has not arrived is lost."""
        if self.closed is None:
            self.closed = (1006, "aborted")
            while not self.incoming.empty():
                self.incoming.get_nowait()
            self.incoming.put_nowait(None)


class MemorySpool:
    """A Spool that stores nothing: there is no next process."""

    async def open(self) -> None:
        """Nothing to do."""

    async def adopt(self) -> list[Result]:
        """Always empty."""
        return []

    async def write(self, results: Sequence[Result]) -> None:
        """Nothing to do."""

    def remove(self, result: Result) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""
