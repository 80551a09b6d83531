"""A process that runs a node and forks: the child has nothing of it, and may be a node itself."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.polling import wait_until
from tests.support.processes import ManagedProcess
from tickwheel_executor.testing import FakeAdmin

# The parent forks when it is told to, and the child does what its function says.
PROGRAM = """
import json, logging, os, sys, time
from pathlib import Path
from tickwheel_executor import Executor

executor = Executor("billing", shutdown_grace_seconds=1)
original = sys.stdout

@executor.handler("pid")
def pid():
    return os.getpid()

def told(name):
    while not os.path.exists(name):
        time.sleep(0.01)

def say(file, **what):
    Path("new").write_text(json.dumps(what | {"pid": os.getpid()}))
    Path("new").rename(file)

def open_files():
    names = []
    for number in os.listdir("/proc/self/fd"):
        try:
            names.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass  # that of the listing itself
    return names

def lives_on():
    say("child", files=open_files(), name=executor.settings.name,
        handlers=[type(each).__name__ for each in logging.getLogger().handlers],
        stdout=sys.stdout is original)
    told("start")
    executor.start()
    told("fork again")
    if os.fork() == 0:
        executor.start()
        say("grandchild", name=executor.settings.name)
    told("end")
    executor.stop()
    os._exit(0)

def ends_like_a_program():
    sys.exit(0)

executor.start()
told("fork")
if os.fork() == 0:
    globals()[sys.argv[1]]()
os.wait()
say("child-has-ended")
told("end")
"""


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with FakeAdmin(within_seconds=60) as admin:
        yield admin


@pytest.fixture
def run(admin: FakeAdmin, tmp_path: Path) -> Iterator[Callable[..., ManagedProcess]]:
    running: list[ManagedProcess] = []

    def run(program: str, *arguments: str, **environment: str) -> ManagedProcess:
        (tmp_path / "program.py").write_text(program)
        settings = {"TICKWHEEL_ADMINS": admin.url, "TICKWHEEL_TOKEN": admin.token}
        # Python says from 3.12 on that a fork beside threads is risky: it is what is tried here.
        settings["PYTHONWARNINGS"] = "ignore::DeprecationWarning"
        running.append(
            ManagedProcess(
                [sys.executable, "program.py", *arguments],
                tmp_path / "program.log",
                environment={"XDG_STATE_HOME": str(tmp_path), **settings, **environment},
                directory=tmp_path,
            )
        )
        return running[-1].__enter__()

    yield run
    for process in running:
        process.__exit__(None, None, None)


def said(directory: Path, name: str) -> Any:
    wait_until((directory / name).exists, what=name)
    return json.loads((directory / name).read_text())


def test_the_child_keeps_nothing_of_its_parents_node_and_can_be_one(
    admin: FakeAdmin, run: Callable[..., ManagedProcess], tmp_path: Path
) -> None:
    parent = run(PROGRAM, "lives_on")
    node = admin.node().result()
    (spool,) = (tmp_path / "tickwheel" / "billing").glob("?" * 32)
    (tmp_path / "fork").touch()
    child = said(tmp_path, "child")

    assert not [name for name in child["files"] if str(spool) in name]
    assert not [name for name in child["files"] if "eventpoll" in name]
    assert child["handlers"] == []
    assert child["stdout"]
    assert child["name"] != node.name
    assert child["name"].endswith(f"-{child['pid']}")
    assert admin.run("pid").result().result == parent.pid

    os.kill(parent.pid, signal.SIGKILL)
    admin.no_node().result()  # the child does not hold the connection open
    (tmp_path / "start").touch()
    second = admin.node().result()
    assert second.name == child["name"]
    assert second.key != node.key
    assert admin.run("pid").result().result == child["pid"]
    wait_until(lambda: not spool.exists(), what="the dead parent's spool to be taken over")

    (tmp_path / "fork again").touch()
    third = said(tmp_path, "grandchild")
    for name, pid in ((second.name, child["pid"]), (third["name"], third["pid"])):
        assert admin.run("pid", node=name).result().result == pid
    (tmp_path / "end").touch()
    admin.no_node().result()


def test_a_child_that_ends_like_a_program_leaves_the_parents_node_alone(
    admin: FakeAdmin, run: Callable[..., ManagedProcess], tmp_path: Path
) -> None:
    parent = run(PROGRAM, "ends_like_a_program")
    key = admin.node().result().key
    (tmp_path / "fork").touch()
    said(tmp_path, "child-has-ended")
    assert admin.run("pid").result().result == parent.pid
    assert admin.node().result().key == key
    (tmp_path / "end").touch()
    parent.wait(timeout_seconds=60)
    assert parent.returncode == 0
    assert parent.output() == ""


HANDLERS_THAT_FORK = """
import asyncio, os, signal, time
from tickwheel_executor import Executor, current_run

executor = Executor("billing")
# Whoever runs the tests in the background lets them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def child_of(run):
    pid = os.fork()
    if pid == 0:
        run.log.info("not a line of the run")
        run.progress(0.5)
    return pid

@executor.handler("in a thread")
def in_a_thread(run):
    pid = child_of(run)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) if pid else "from the child"

@executor.handler("on the loop")
async def on_the_loop(run):
    pid = child_of(run)
    if pid == 0:
        return "from the child"
    return os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, pid, 0))[1])

@executor.handler("awaits")
async def awaits(run):
    pid = child_of(run)
    await asyncio.sleep(0)
    return os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, pid, 0))[1])

@executor.handler("terminated")
def terminated(run):
    reads, writes = os.pipe()
    pid = child_of(run)
    if pid == 0:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(600)
        except KeyboardInterrupt:
            os.write(writes, b"here")
        time.sleep(600)
    os.read(reads, 4)
    os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

executor.run()
"""


def test_a_handler_may_fork_and_its_child_never_acts_for_the_node(
    admin: FakeAdmin, run: Callable[..., ManagedProcess]
) -> None:
    service = run(HANDLERS_THAT_FORK)
    key = admin.node().result().key
    for handler, code in [("in a thread", 0), ("on the loop", 0), ("awaits", 1)]:
        end = admin.run(handler).result()
        assert (end.outcome, end.result) == ("succeeded", code), end
        assert end.log == []
        assert end.progress == []
    # Signals reach the child, and not by way of it the node.
    assert admin.run("terminated").result().result == -signal.SIGTERM
    assert admin.run("in a thread").result().outcome == "succeeded"
    assert admin.node().result().key == key
    os.kill(service.pid, signal.SIGTERM)
    service.wait(timeout_seconds=60)
    assert service.returncode == 0
    assert "RuntimeError: a handler forked, and its child awaits" in service.output()
