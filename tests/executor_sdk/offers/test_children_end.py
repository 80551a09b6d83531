"""Nothing of a child survives its run, whatever it does: counted by processes."""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import sys
from pathlib import Path

import pytest

from tests.support.availability import NOT_HERE, impossible
from tickwheel_executor import Run
from tickwheel_executor.offers.children.running import Invocation, grace_of, run_child
from tickwheel_executor.offers.children.settings import ChildLimits, Children
from tickwheel_executor.offers.command import Command
from tickwheel_executor.offers.keeper.workspace import lock_directory
from tickwheel_executor.offers.script import Script
from tickwheel_executor.run.context import Stop, mark_cancelled
from tickwheel_executor.testing import FakeAdmin, run_handler
from tickwheel_shared.protocol import Outcome

from .running import (
    CHILDREN,
    WITHIN_SECONDS,
    children_of,
    command,
    line,
    offered,
    processes,
    source,
    until,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason=NOT_HERE + "needs subreapers")

# Each leaves a process with the mark in another way: it must be gone, too.
ESCAPES = {
    "child": "sleep {mark} & echo ready; wait",
    "session": "setsid sleep {mark} & echo ready; wait",
    "daemon": "(setsid sh -c 'sleep {mark} & exit' &) ; echo ready; sleep {mark}",
    "deaf": "trap '' TERM INT HUP; (trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep {mark}; :' &)"
    "; echo ready; while :; do sleep {mark}; done",
    "stopped": "setsid sh -c 'kill -STOP $$; sleep {mark}' & sleep {mark} & echo ready; wait",
    "perl daemon": "perl -MPOSIX -e 'exit if fork; setsid; exit if fork; $0 = \"{mark}\"; sleep'"
    "; echo ready; sleep {mark}",
}


def files(directory: Path, pattern: str) -> list[Path]:
    return list(directory.glob(pattern))


@pytest.fixture(params=["cgroup", "signals"])
def children(request: pytest.FixtureRequest) -> Children:
    """With a cgroup for each run, where that is possible, and without."""
    found = Children(cgroups="off" if request.param == "signals" else "auto")
    if request.param == "cgroup" and found.run_cgroups is None:
        impossible("no cgroups can be made here")
    return found


@pytest.mark.parametrize("how", ["cancelled", "timed_out"])
async def test_nothing_survives_a_stop(children: Children, how: str, tmp_path: Path) -> None:
    async with offered(tmp_path, Command(children=children)) as admin:
        runs = {}
        for number, (name, text) in enumerate(ESCAPES.items()):
            mark = f"{os.getpid()}777.{number}"
            parameters = {
                "argv": ["bash", "-c", text.format(mark=mark)],
                "stop_grace_seconds": 0.3,
            }
            timeout = 1.0 if how == "timed_out" else None
            runs[name] = mark, await admin.begin("command", parameters, timeout=timeout)
        for _, run in runs.values():
            if how == "cancelled":
                await line(run, "ready")
                await run.cancel()
        for name, (mark, run) in runs.items():
            end = await run.end()
            assert end.outcome == how, name
            assert processes(mark) == [], name


async def test_what_a_command_leaves_behind_ends_with_it(
    children: Children, tmp_path: Path
) -> None:
    async with offered(tmp_path, Command(children=children)) as admin:
        for number, (name, text) in enumerate(ESCAPES.items()):
            mark = f"{os.getpid()}888.{number}"
            text = text.format(mark=mark).rpartition("echo ready")[0] + "echo ready"
            end = await admin.run("command", {"argv": ["bash", "-c", text]})
            assert processes(mark) == [], name
            assert end.succeeded
            assert end.lines()[-1].startswith("what it had left behind was killed"), name


async def test_a_program_has_its_time_to_clean_up(tmp_path: Path) -> None:
    text = "trap 'sleep 0.2; echo cleaned up; exit' TERM; echo ready; while :; do sleep 0.01; done"
    async with offered(tmp_path, Command()) as admin:
        run = await admin.begin("command", {"argv": ["bash", "-c", text]})
        await line(run, "ready")
        await run.cancel()
        end = await run.end()
    assert (end.outcome, end.lines()[-1]) == ("cancelled", "cleaned up")


async def test_a_second_request_to_end_is_the_last() -> None:
    """Such as of the lease guard: the work may begin elsewhere, whatever time was left."""

    async def handler(run: Run) -> None:
        argv = ["bash", "-c", "trap '' TERM; echo ready >&2; while :; do sleep 0.01; done"]
        invocation = Invocation(argv=["/usr/bin/env", *argv], grace_seconds=3_600)
        task = asyncio.create_task(run_child(CHILDREN, run, invocation))
        await until(lambda: run.log.next_seq + len(run.log.lines) > 1)
        mark_cancelled(run, Stop(outcome=Outcome.CANCELLED, message="cancelled"))
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert (await run_handler(handler)).outcome == "cancelled"


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        (Outcome.CANCELLED, 60.0),
        (Outcome.TIMED_OUT, 60.0),
        (Outcome.CUT_OFF, 2.0),  # by then the lease ends
        (Outcome.FAILED, 2.0),  # a shutdown waits no longer
    ],
)
async def test_who_has_no_time_leaves_none(outcome: Outcome, seconds: float) -> None:
    async def handler(run: Run) -> float:
        mark_cancelled(run, Stop(outcome=outcome, message="end", grace_seconds=2.0))
        return grace_of(run, Invocation(argv=[], grace_seconds=60.0))

    assert (await run_handler(handler)).result == seconds


async def test_nothing_survives_the_death_of_its_agent(tmp_path: Path) -> None:
    mark = f"{os.getpid()}999"
    async with FakeAdmin(within_seconds=WITHIN_SECONDS) as admin:
        agent = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.executor_sdk.offers.agent_process"),
            *(admin.url, admin.token, str(tmp_path)),
        )
        runs = [
            await admin.begin("command", {"argv": ["bash", "-c", text.format(mark=mark)]})
            for text in ESCAPES.values()
        ]
        for run in runs:
            await line(run, "ready")
        assert processes(mark) != []
        keepers = processes("keeper/boot.py")
        assert len(files(tmp_path, "tickwheel-*/run-*")) == len(runs)
        assert any(str(tmp_path) in keeper for keeper in keepers)
        agent.kill()
        await agent.wait()
        await until(lambda: not processes(mark))
        await until(lambda: not any(str(tmp_path) in each for each in processes("keeper/boot.py")))
    assert files(tmp_path, "tickwheel-*") == []


@pytest.mark.parametrize("victim", ["supervisor", "keeper"])
async def test_nothing_survives_the_death_of_its_supervisor(victim: str, tmp_path: Path) -> None:
    mark = f"{os.getpid()}666"
    children = Children(cgroups="off", directory=tmp_path)
    async with offered(tmp_path, Command(children=children)) as admin:
        argv = ["bash", "-c", ESCAPES["daemon"].format(mark=mark)]
        run = await admin.begin("command", {"argv": argv})
        await line(run, "ready")
        keeper = children.keeper.pid
        assert keeper is not None
        if victim == "keeper":
            os.kill(keeper, signal.SIGKILL)
            await run.cancel()
            assert (await run.end()).outcome == "cancelled"
        else:
            [supervisor] = children_of(keeper)
            os.kill(supervisor, signal.SIGKILL)
            end = await run.end()
            assert end.message == "its supervisor was killed, and so was the program"
        await until(lambda: not processes(mark))
        assert (await admin.run("command", {"argv": ["true"]})).succeeded
        assert (children.keeper.pid == keeper) == (victim == "supervisor")


@pytest.mark.skipif(os.geteuid() != 0, reason=NOT_HERE + "only root can change users")
async def test_a_fork_bomb_is_limited_and_ends(tmp_path: Path) -> None:
    user = pwd.getpwnam("games")
    limits = ChildLimits(processes=60)
    children = Children(run_as="games", limits=limits, cgroups="off")
    bomb = "echo ready; b() { b | b & b & }; while :; do b; done 2>/dev/null"
    async with offered(tmp_path, Script(languages=("shell",), children=children)) as admin:
        run = await admin.begin("script", {"stop_grace_seconds": 0}, script=source("shell", bomb))
        await line(run, "ready")
        most = 0

        def count() -> int:
            nonlocal most
            found = 0
            for entry in os.scandir("/proc"):
                if entry.name.isdigit():
                    try:
                        found += entry.stat().st_uid == user.pw_uid
                    except FileNotFoundError:
                        continue
            most = max(most, found)
            return found

        await until(lambda: count() > 30)
        await run.cancel()
        assert (await run.end()).outcome == "cancelled"
        assert count() == 0
    assert most <= 60


async def test_directories_of_a_crashed_machine_are_removed(tmp_path: Path) -> None:
    old, new, used, other = (
        tmp_path / name
        for name in ("tickwheel-agent-1", "tickwheel-agent-2", "tickwheel-agent-3", "other-4")
    )
    for directory in (old, new, used, other):
        (directory / "run-1-1-ab").mkdir(parents=True)
        if directory != new:
            os.utime(directory, (0, 0))
    lock = lock_directory(str(used))
    offer = Command(children=Children(directory=tmp_path))
    end = await command("sh", "-c", "ls -d ../../../*-[0-9]", offer=offer)
    assert end.lines() == [f"../../../{each.name}" for each in (other, new, used)]
    os.close(lock)
