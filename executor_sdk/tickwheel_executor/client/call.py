"""One way to write a method for code with an event loop and for code without one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Call(Coroutine[Any, Any, T]):
    """A request that begins when it is awaited, or when its result is asked for.

    `await client.run_job(…)` on an event loop; `client.run_job(…).result()` where there is none.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def result(self) -> T:
        """Do it on an event loop of its own, and wait for it.

        Raises:
            RuntimeError: this thread runs an event loop, which would stand still meanwhile.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass  # and not here: what is raised would drag this error along
        else:
            self._coroutine.close()
            raise RuntimeError("this thread runs an event loop: use `await` instead of `.result()`")
        return asyncio.run(self._coroutine)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """As of any coroutine; for the event loop."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """As of any coroutine; for the event loop."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """As of any coroutine; for the event loop."""
        self._coroutine.close()
