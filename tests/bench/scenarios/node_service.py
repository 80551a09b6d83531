"""The process that `node` measures: handlers that do nothing, of every kind."""

from __future__ import annotations

import sys
import time
from typing import Any

from aiohttp.client_proto import ResponseHandler

from tickwheel_executor import Executor

executor = Executor("bench", slots=int(sys.argv[1]), spool_dir=sys.argv[2])


@executor.handler("async")
async def do_nothing_async() -> None:
    """On the loop."""


@executor.handler("thread")
def do_nothing() -> None:
    """In a thread."""


@executor.handler("process", isolation="process")
def do_nothing_apart() -> None:
    """In a process of the pool."""


read_at = 0  # when bytes came from an admin last


_data_received: Any = ResponseHandler.data_received


def _stamping(self: ResponseHandler, data: bytes) -> None:
    global read_at
    read_at = time.perf_counter_ns()
    _data_received(self, data)


ResponseHandler.data_received = _stamping  # type: ignore[method-assign]


@executor.handler("stamp")
async def stamp() -> tuple[int, int]:
    """When its frame came and when it begins: nanoseconds of the machine's one clock (Linux)."""
    return read_at, time.perf_counter_ns()


if __name__ == "__main__":
    executor.run()
