"""Run a test on an event loop whose clock jumps to the next timer instead of waiting for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

LIMIT_SECONDS = 24 * 3600.0  # a test that gets here waits for something that never comes


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("the test waits for something that nothing will set off")
        self._loop.now += max(timeout, 0.0)
        assert self._loop.now < LIMIT_SECONDS, "the test goes on for ever"
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is a number that only rises when nothing is left to do."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self.now


def virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Decorator for an async test that must not wait in real time. No threads inside."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        loop = VirtualLoop()
        try:
            loop.run_until_complete(test(*args, **kwargs))
        finally:
            loop.run_until_complete(_cancel_the_rest())
            loop.close()

    return run


async def _cancel_the_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for other in rest:
        other.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
