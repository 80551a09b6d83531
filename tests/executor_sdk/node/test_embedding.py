"""A node inside a program that does other things: in a thread of its own, or on the host's loop."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.polling import wait_until, wait_until_async
from tickwheel_executor import ConfigurationError, Executor, Run, SpoolError
from tickwheel_executor.testing import FakeAdmin

Make = Callable[..., Executor]


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with FakeAdmin(within_seconds=60) as admin:
        yield admin


@pytest.fixture
def make(admin: FakeAdmin, tmp_path: Path) -> Iterator[Make]:
    made: list[Executor] = []

    def make(**settings: Any) -> Executor:
        settings = {"admins": [admin.url], "token": admin.token, "spool_dir": tmp_path} | settings
        made.append(Executor("billing", **settings))
        return made[-1]

    yield make
    for executor in made:
        executor.stop()


def signals() -> list[object]:
    handlers: list[object] = [
        signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)
    ]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    return [*handlers, wakeup]


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "tickwheel"]


def test_start_works_in_a_thread_of_its_own_and_stop_ends_it(admin: FakeAdmin, make: Make) -> None:
    executor, before = make(), signals()

    @executor.handler("plain")
    def plain(run: Run) -> str:
        return f"plain {run.parameters['n']}"

    @executor.handler("async")
    async def on_the_loop() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    executor.start()
    assert signals() == before
    assert admin.run("plain", {"n": 1}).result().result == "plain 1"
    assert admin.run("async").result().result == "tickwheel"
    assert executor.stop()
    admin.no_node().result()
    assert threads() == []
    assert executor.stop()  # once more is fine


def test_what_was_stopped_can_be_started_again_and_is_a_new_node(
    admin: FakeAdmin, make: Make
) -> None:
    executor = make()
    executor.handler("work")(lambda: "done")
    keys = []
    for _ in range(2):
        executor.start()
        keys.append(admin.node().result().key)
        assert admin.run("work").result().result == "done"
        assert executor.stop()
        admin.no_node().result()
    assert keys[0] != keys[1]


def test_stop_waits_for_what_runs(admin: FakeAdmin, make: Make) -> None:
    executor, go_on = make(), threading.Event()

    @executor.handler("work")
    def work() -> str:
        go_on.wait(20)
        return "finished"

    executor.start()
    run = admin.begin("work").result()
    stopping = threading.Thread(target=executor.stop)
    stopping.start()
    go_on.set()
    assert run.end().result().result == "finished"
    stopping.join(20)
    assert not stopping.is_alive()


def test_a_second_start_is_refused_while_the_first_one_works(make: Make) -> None:
    executor = make()
    executor.start()
    with pytest.raises(ConfigurationError, match="started already"):
        executor.start()

    async def beside() -> None:
        async with executor:
            pass

    with pytest.raises(ConfigurationError, match="started already"):
        asyncio.run(beside())
    assert executor.stop()


def test_what_keeps_it_from_starting_is_raised_in_the_caller(make: Make, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.touch()
    executor = make(spool_dir=spool)
    with pytest.raises(SpoolError, match="spool"):
        executor.start()
    assert threads() == []
    spool.unlink()
    executor.start()
    assert executor.stop()


def test_a_disk_that_does_not_answer_is_not_waited_for_longer_than_told(
    make: Make, tmp_path: Path
) -> None:
    executor = make()
    held = os.open(tmp_path / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)  # as a dead NFS server does, but only for this file
        with pytest.raises(SpoolError, match=r"within 0\.1 s"):
            executor.start(timeout=0.1)
    finally:
        os.close(held)
    assert threads() == []
    # When the disk answers at last, nothing stays there, and nothing stays locked.
    wait_until(lambda: not any("spool" in each.name for each in threading.enumerate()))
    assert os.listdir(tmp_path) == [".lock"]


async def test_a_stop_that_is_cancelled_leaves_no_lock(make: Make, tmp_path: Path) -> None:
    executor = make(admins=["http://127.0.0.1:9"])  # nobody is there
    await executor.__aenter__()
    stop = asyncio.create_task(executor.__aexit__(None, None, None))
    await asyncio.sleep(0)  # it waits for its links now
    stop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stop
    # A lock would keep the next node of this process from delivering what lies there.
    await wait_until_async(lambda: os.listdir(tmp_path) == [".lock"])


def test_a_handler_cannot_stop_what_it_runs_in(admin: FakeAdmin, make: Make) -> None:
    executor = make()
    executor.handler("plain")(lambda: executor.stop())

    @executor.handler("async")
    async def stop_it() -> None:
        executor.stop()

    executor.start()
    for name in ("plain", "async"):
        end = admin.run(name).result()
        assert end.outcome == "failed"
        assert "wait for itself" in end.message


async def test_on_the_hosts_loop_again_and_again(admin: FakeAdmin, make: Make) -> None:
    executor, before = make(), signals()

    @executor.handler("where")
    async def where() -> int:
        return threading.get_ident()

    for _ in range(2):
        async with executor:
            assert (await admin.run("where")).result == threading.get_ident()
            assert signals()[:2] == before[:2]
        await admin.no_node()


async def test_for_as_long_as_an_application_lives(admin: FakeAdmin, make: Make) -> None:
    executor = make()
    async with executor.lifespan(object()):
        await admin.node()
    await admin.no_node()

    app = web.Application()
    app.cleanup_ctx.append(executor.cleanup_ctx)
    runner = web.AppRunner(app)
    await runner.setup()
    await admin.node()
    await runner.cleanup()
    await admin.no_node()


SCRIPT = """
import asyncio, os, time
from tickwheel_executor import Executor

executor = Executor("billing", shutdown_grace_seconds=20)
started = []

@executor.handler("pooled")
async def pooled():
    started.append(1)
    while not os.path.exists("main-thread-has-ended"):
        await asyncio.sleep(0.01)
    return await asyncio.to_thread(lambda: "from a thread pool")  # which Python has not ended yet

executor.start()
while not started:
    time.sleep(0.01)
open("main-thread-has-ended", "w").close()
"""


def test_when_the_program_ends_what_runs_is_finished_and_delivered(
    admin: FakeAdmin, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(SCRIPT)
    with subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ
        | {"TICKWHEEL_ADMINS": admin.url, "TICKWHEEL_TOKEN": admin.token}
        | {"XDG_STATE_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as program:
        assert admin.run("pooled").result().result == "from a thread pool"
        output, _ = program.communicate(timeout=20)
    assert program.returncode == 0, output
    assert output == ""
