"""How many bytes of large frames an admin holds at once, until they are recorded.

A decoded frame takes about six times its bytes. Each executor has its own budget, so that nodes of
one that send much wait only for each other.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress

SMALL_BYTES = 64 * 1024  # frames up to this never wait
MAX_BYTES = 12 * 1024 * 1024  # of an executor's nodes: three of the largest frames
LOOK_SECONDS = 2.0  # between two checks whether a waiting node is still connected


class FrameBudget:
    """Used from the event loop's thread only."""

    def __init__(self) -> None:
        self._taken: Counter[int] = Counter()  # bytes by executor
        self._freed = asyncio.Event()  # set, and replaced, when there may be room again

    def reserved(
        self, executor_id: int, size: int, *, is_gone: Callable[[], bool] = lambda: False
    ) -> AbstractAsyncContextManager[None]:
        """Wait until there is room for a frame of so many bytes, and hold it.

        Raises:
            ConnectionResetError: `is_gone` became true meanwhile.
        """
        if size <= SMALL_BYTES:
            return nullcontext()  # most frames: a generator would cost more than they do
        return self._reserved(executor_id, size, is_gone)

    @asynccontextmanager
    async def _reserved(
        self, executor_id: int, size: int, is_gone: Callable[[], bool]
    ) -> AsyncIterator[None]:
        while self._taken[executor_id] and self._taken[executor_id] + size > MAX_BYTES:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._freed.wait()
            if is_gone():
                raise ConnectionResetError("gone while its frame waited")
        self._taken[executor_id] += size
        try:
            yield
        finally:
            self._taken[executor_id] -= size
            if not self._taken[executor_id]:
                del self._taken[executor_id]
            self._freed.set()
            self._freed = asyncio.Event()
