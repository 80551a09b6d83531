"""Waiting for something with a deadline, for tests that watch real processes and sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, timeout_seconds: float = 10, what: str = "") -> T:
    """The first true value of `condition`, asked at once, then ever less often."""
    for pause_seconds in _pauses(timeout_seconds, what or _name_of(condition)):
        value = condition()
        if value:
            return value
        time.sleep(pause_seconds)
    raise AssertionError("unreachable: the pauses end with a TimeoutError")


async def wait_until_async(
    condition: Callable[[], T | Awaitable[T]], *, timeout_seconds: float = 10, what: str = ""
) -> T:
    """Like `wait_until`, on the event loop; `condition` may be a coroutine function."""
    for pause_seconds in _pauses(timeout_seconds, what or _name_of(condition)):
        value = condition()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        await asyncio.sleep(pause_seconds)
    raise AssertionError("unreachable: the pauses end with a TimeoutError")


def _pauses(timeout_seconds: float, what: str) -> Iterator[float]:
    deadline = time.monotonic() + timeout_seconds
    pause_seconds = 0.01
    while time.monotonic() < deadline:
        yield pause_seconds
        pause_seconds = min(pause_seconds * 1.5, 0.2)
    yield 0  # one last look: the machine may have been too busy to look in time
    raise TimeoutError(f"waited {timeout_seconds} s in vain for {what}")


def _name_of(condition: Callable[[], object]) -> str:
    return getattr(condition, "__qualname__", repr(condition))
