"""Results of calls that run in another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Pending(Generic[T]):
    """A call that has started: `await` it on an event loop, or call `.result()` without one."""

    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def result(self) -> T:
        """Wait for it.

        Raises:
            RuntimeError: this thread runs an event loop, which would be blocked.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._future.result()
        raise RuntimeError("this thread runs an event loop: use `await` instead of `.result()`")

    def __await__(self) -> Generator[Any, Any, T]:
        return asyncio.wrap_future(self._future).__await__()
