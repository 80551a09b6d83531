"""A socket and a disk that are only in memory, for a node that lives as long as one run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tickwheel_executor.errors import ConnectError
from tickwheel_shared.protocol import Message, Result, decode_from_node, encode_frames

from .session import FakeAdminState, FakeSession


class MemoryChannel:
    """An AdminChannel whose other end is a FakeSession."""

    def __init__(self, state: FakeAdminState, *, on_change: Callable[[], None]) -> None:
        self.session = FakeSession(state, self._say, on_change=on_change)
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._reason = ""

    @property
    def close_reason(self) -> str:
        """Why it closed."""
        return self._reason

    def _say(self, message: Message) -> None:
        for frame in encode_frames([message]):
            self._incoming.put_nowait(frame)

    async def send(self, frame: bytes) -> None:
        """Hand over one frame; it is answered at once."""
        if self._reason:
            raise ConnectError(self._reason)
        for message in decode_from_node(frame):
            self.session.take(message)

    async def receive(self) -> bytes | None:
        """The next frame; None after the end."""
        return None if self._reason else await self._incoming.get()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """End it."""
        self._end(reason or f"closed with {code}")

    def abort(self) -> None:
        """End it."""
        self._end("broken off")

    def _end(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._incoming.put_nowait(None)


class MemorySpool:
    """A Spool that forgets: there is no next process."""

    async def open(self) -> None:
        """Nothing to do."""

    async def adopt(self) -> list[Result]:
        """Nobody left anything."""
        return []

    async def write(self, results: Sequence[Result]) -> None:
        """Safe enough."""

    def remove(self, result: Result) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""
