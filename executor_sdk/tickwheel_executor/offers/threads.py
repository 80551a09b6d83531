"""Blocking work of an offer, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

_Value = TypeVar("_Value")


class StoppedError(Exception):
    """Work in a thread was told to stop."""


def in_thread(function: Callable[[], _Value], *, name: str) -> asyncio.Future[_Value]:
    """Run it in a new daemon thread: the pools of asyncio are too small for what takes hours.

    Cancelling the future does not stop the thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Value] = loop.create_future()

    def work() -> None:
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 (raised again where it is awaited)
            tell(future.set_exception, error)
        else:
            tell(future.set_result, result)

    def tell(set_end: Callable[[Any], None], end: object) -> None:
        def set_unless_cancelled() -> None:
            if not future.done():
                set_end(end)

        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(set_unless_cancelled)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future
