"""Processes that leave before they have read everything are no errors of the admin's."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from tests.support.polling import wait_until_async
from tickwheel_admin.services.workers.processes import WorkerProcesses

MORE_THAN_A_PIPE_HOLDS = b" " * 4_000_000


def errors_of_the_loop() -> list[Any]:
    """What asyncio logs as errors from now on."""
    found: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: found.append(context))
    return found


async def forgotten() -> None:
    """The loop has closed what it was to close, and what nobody asked about is told."""
    for _ in range(20):
        await asyncio.sleep(0)
    gc.collect()


async def test_a_process_that_reads_nothing_is_not_logged_as_an_error() -> None:
    errors = errors_of_the_loop()
    told = await WorkerProcesses(seconds=60).ask("this", text=MORE_THAN_A_PIPE_HOLDS)
    assert b"Explicit is better than implicit." in told
    await forgotten()
    assert errors == []


async def test_a_reader_who_leaves_is_not_logged_as_an_error() -> None:
    errors = errors_of_the_loop()
    processes = WorkerProcesses(seconds=60)
    for_ever = ("-n1", "-r1", "-s", "import time", "time.sleep(3600)")
    asking = asyncio.create_task(processes.ask("timeit", *for_ever, text=MORE_THAN_A_PIPE_HOLDS))
    await wait_until_async(
        lambda: any(_is_written_to(each) for each in processes.running),
        what="the process to be written to",
    )
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    del asking
    await forgotten()
    assert errors == []
    assert not processes.running


def _is_written_to(process: asyncio.subprocess.Process) -> bool:
    assert process.stdin is not None
    return process.stdin.transport.get_write_buffer_size() > 0
