"""An event loop in a background thread, for programs without a loop: `Executor.start()`."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextvars import Context
from typing import Any, TypeVar

from . import forks

_T = TypeVar("_T")

_LEFTOVER_SECONDS = 2.0
_JOIN_SECONDS = _LEFTOVER_SECONDS + 3.0


class LoopThread:
    """The loop runs from construction to `end`.

    The thread is a daemon, so that it does not keep a program alive.
    """

    def __init__(self, name: str = "tickwheel") -> None:
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        forks.watch(self)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run it on the loop, without the caller's context: a node outlives whoever started it."""
        return Context().run(asyncio.run_coroutine_threadsafe, coroutine, self._loop)

    def call(self, coroutine: Coroutine[Any, Any, _T], *, timeout: float | None = None) -> _T:
        """Run it on the loop and wait; returns what it returns, and raises what it raises.

        Raises:
            TimeoutError: it takes more than `timeout` seconds; it continues.
        """
        return self.submit(coroutine).result(timeout)

    def end(self) -> bool:
        """Cancel what is left on the loop and end the thread; returns whether it has ended.

        It has not if a handler blocks the loop; then the thread ends as soon as it can.
        """
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_SECONDS)
        return not self._thread.is_alive()

    def forked(self) -> None:
        """In a child: changes of the selector must not affect the parent."""
        fileno = getattr(self._selector, "fileno", None)  # not every kind has a file
        if fileno is not None:
            forks.release_file(fileno())

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(cancel_leftovers())
        finally:
            self._loop.close()


async def cancel_leftovers() -> None:
    """Cancel what is left on the loop, and wait for it, but not long."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for other in others:
        other.cancel()
    if others:
        await asyncio.wait(others, timeout=_LEFTOVER_SECONDS)
