"""Real nodes with process handlers: scripts without a main guard, and a node that is killed."""

from __future__ import annotations

import asyncio
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

from .test_process_handlers import is_alive

HANDLERS = """
import ctypes, os, subprocess, sys
from tickwheel_executor import Executor, Run

executor = Executor("billing", name="node-1", shutdown_grace_seconds=1)

@executor.handler("where", isolation="process")
def where():
    return [os.getpid(), os.getppid(), sys.argv[1:]]

@executor.handler("hang", isolation="process")
def hang(run: Run):
    subprocess.Popen(["sleep", "600"])
    if os.fork() == 0:
        ctypes.PyDLL(None).sleep(600)
    run.log.info("hanging")
    ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock
"""
ENDINGS = {
    "run": "executor.run()\nprint('after run')\n",
    "start": "executor.start()\nif __name__ == '__main__':\n    input()\n",
    "async with": """
import asyncio
async def main():
    async with executor:
        await asyncio.Event().wait()
asyncio.run(main())
""",
}


@pytest.fixture
async def start(tmp_path: Path, server: LinkServer) -> AsyncIterator[Any]:
    started: list[asyncio.subprocess.Process] = []

    async def start(ending: str) -> asyncio.subprocess.Process:
        script = tmp_path / "service.py"
        script.write_text(HANDLERS + ENDINGS[ending])
        settings = {"TICKWHEEL_ADMINS": server.url, "TICKWHEEL_TOKEN": TOKEN}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(script),
            "--an-argument",
            stdin=asyncio.subprocess.PIPE,
            env={**os.environ, **settings, "XDG_STATE_HOME": str(tmp_path / "state")},
        )
        started.append(process)
        await wait_until_async(lambda: server.all("held"), timeout_seconds=20)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


def descendants(pid: int) -> set[int]:
    """All processes below this one."""
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found |= {child} | descendants(child)
    return found


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_handlers_of_a_script_run_in_processes(
    ending: str,
    start: Any,
    server: LinkServer,
) -> None:
    node = await start(ending)
    await server.give("where")
    await wait_until_async(lambda: server.all("result"), timeout_seconds=20)
    result = server.all("result")[0]
    assert result["outcome"] == "succeeded", result
    pid, parent, arguments = result["result"]
    assert pid != node.pid
    assert parent == node.pid
    assert arguments == ["--an-argument"]
    assert len(server.all("hello")) == 1  # the process is no node


async def test_a_node_that_is_killed_leaves_nothing_behind(
    start: Any,
    server: LinkServer,
) -> None:
    node = await start("run")
    await server.give("hang")
    await wait_until_async(lambda: server.all("log"), timeout_seconds=20)
    below = descendants(node.pid)
    assert len(below) == 4  # the guard, the process, its fork and its “sleep”
    node.send_signal(signal.SIGKILL)
    await node.wait()
    await wait_until_async(lambda: not any(is_alive(pid) for pid in below), timeout_seconds=20)
