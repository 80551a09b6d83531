"""executor.run() in a real process: signals, exit codes, and what is left for the next one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.executor_sdk.link_server import LinkServer
from tests.executor_sdk.scripted_admin import TOKEN
from tests.support.polling import wait_until_async

SCRIPT = """
import asyncio, sys, time
from tickwheel_executor import Executor
from tickwheel_executor.node import shutdown

shutdown.STOP_SECONDS = 1.0

executor = Executor("billing", name="node-1", shutdown_grace_seconds=float(sys.argv[1]))

@executor.handler("short")
async def short():
    await asyncio.sleep(0.5)
    return "finished"

@executor.handler("long")
def long():
    time.sleep(600)

@executor.handler("stubborn")
async def stubborn():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass

executor.run()
print("after run")
"""


class Service:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def ended(self) -> tuple[int, str]:
        output, _ = await asyncio.wait_for(self.process.communicate(), 20)
        return self.process.returncode or 0, output.decode()


@pytest.fixture
async def start(tmp_path: Path, server: LinkServer) -> AsyncIterator[Any]:
    started: list[Service] = []
    script = tmp_path / "service.py"
    script.write_text(SCRIPT)

    async def start(grace_seconds: float = 5) -> Service:
        settings = {"TICKWHEEL_ADMINS": server.url, "TICKWHEEL_TOKEN": TOKEN}
        service = Service(
            await asyncio.create_subprocess_exec(
                sys.executable,
                str(script),
                str(grace_seconds),
                env={**os.environ, **settings, "XDG_STATE_HOME": str(tmp_path / "state")},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        )
        started.append(service)
        await wait_until_async(lambda: server.all("held"), timeout_seconds=20)
        return service

    yield start
    for service in started:
        if service.process.returncode is None:
            service.process.kill()
            await service.process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_finishes_what_runs_and_exits_0(
    start: Any,
    server: LinkServer,
    number: signal.Signals,
    tmp_path: Path,
) -> None:
    service = await start()
    await server.give("short")
    service.process.send_signal(number)
    code, output = await service.ended()
    assert code == 0, output
    assert "after run" in output
    assert server.all("draining")
    assert server.all("result")[0]["result"] == "finished"
    assert server.all("goodbye")
    assert TOKEN not in output
    assert os.listdir(tmp_path / "state" / "tickwheel" / "billing") == [".lock"]


async def test_a_thread_that_does_not_return_is_left_behind_with_exit_1(
    start: Any,
    server: LinkServer,
) -> None:
    service = await start(0.1)
    await server.give("long")
    service.process.send_signal(signal.SIGTERM)
    code, output = await service.ended()
    assert code == 1
    assert "1 runs did not end" in output
    assert "after run" not in output
    assert not server.all("goodbye")


async def test_the_result_of_a_killed_process_is_delivered_by_the_next_one(
    start: Any,
    server: LinkServer,
    tmp_path: Path,
) -> None:
    server.receipts = False
    service = await start()
    await server.give("short")
    await wait_until_async(lambda: server.all("result"), timeout_seconds=20)
    service.process.kill()
    code, _ = await service.ended()
    assert code == -signal.SIGKILL
    (lost,) = {json.dumps(entry, sort_keys=True) for entry in server.all("result")}
    server.receipts = True
    server.frames.clear()
    successor = await start()
    await wait_until_async(lambda: server.all("result"), timeout_seconds=20)
    assert json.dumps(server.all("result")[0], sort_keys=True) == lost
    assert server.all("held")[0]["runs"] == []
    successor.process.send_signal(signal.SIGTERM)
    code, output = await successor.ended()
    assert code == 0, output
    assert os.listdir(tmp_path / "state" / "tickwheel" / "billing") == [".lock"]


async def test_a_second_signal_exits_at_once(start: Any, server: LinkServer) -> None:
    service = await start(60)
    await server.give("stubborn")
    service.process.send_signal(signal.SIGTERM)
    await wait_until_async(lambda: server.all("draining"))
    service.process.send_signal(signal.SIGINT)
    code, output = await service.ended()
    assert code == 128 + signal.SIGINT
    assert "exiting at once" in output
