"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .pending import Pending

T = TypeVar("T")


class ThreadLoop:
    """Runs coroutines for callers in other threads, between `start` and `end`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> Pending[T]:
        """Run it there.

        Raises:
            RuntimeError: outside of `start` and `end`.
        """
        if self._loop is None:
            coroutine.close()
            raise RuntimeError("use it within its `with` block")
        return Pending(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def call_soon(self, function: Callable[..., object], *arguments: object) -> Pending[None]:
        """Call a plain function there."""

        async def call() -> None:
            function(*arguments)

        return self.call(call())

    def end(self) -> None:
        """Cancel what is left, and end the thread."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
        self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for other in others:
        other.cancel()
    await asyncio.gather(*others, return_exceptions=True)
