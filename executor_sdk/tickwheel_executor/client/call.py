"""Client methods that work with and without an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Call(Coroutine[Any, Any, T]):
    """A request that starts when it is awaited, or when its result is requested.

    `await client.run_job(…)` on an event loop; `client.run_job(…).result()` where there is none.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def result(self) -> T:
        """Run it on a new event loop and wait for the result.

        Raises:
            RuntimeError: this thread runs an event loop, which would be blocked.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # the call is below: here its errors would have this one as their context
        else:
            self._coroutine.close()
            raise RuntimeError("this thread runs an event loop: use `await` instead of `.result()`")
        return asyncio.run(self._coroutine)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Part of the coroutine protocol."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Part of the coroutine protocol."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Part of the coroutine protocol."""
        self._coroutine.close()
