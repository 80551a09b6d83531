"""Handlers in processes of their own: everything a handler may do there, and all its bad days."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.executor_sdk.runner import process_handlers as work
from tests.executor_sdk.scripted_admin import (
    ScriptedAdmin,
    Session,
    connect,
    request,
    value,
)
from tests.support.polling import wait_until_async
from tickwheel_executor import HandlerError
from tickwheel_executor.attempts import admission
from tickwheel_executor.attempts.in_flight import CUT_OFF_GRACE_SECONDS
from tickwheel_executor.handlers.handlers import Handlers, Limits, limits_of
from tickwheel_executor.node import shutdown
from tickwheel_executor.node.node import Node
from tickwheel_executor.runner import process_runner
from tickwheel_executor.runner.guard import ProcessGuard
from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    Checkpoint,
    LogChunk,
    Outcome,
    Progress,
    Result,
)

BOUNDED = Limits(memory_mb=200, cpu_seconds=1)


@asynccontextmanager
async def a_node(
    function: Callable[..., Any], *, limits: Limits | None = None, slots: int = 4, **hooks: Any
) -> AsyncIterator[tuple[Node, ScriptedAdmin, Session]]:
    """A node with this one handler, in a process."""
    admin, node, session = await connect(
        {"work": function}, limits=limits or Limits(), slots=slots, **hooks
    )
    try:
        yield node, admin, session
    finally:
        if not node._stopped:
            await node.drain(5)


async def run_once(
    function: Callable[..., Any], parameters: Any = None, **given: Any
) -> tuple[Result, Session]:
    hooks = {kind: given.pop(kind) for kind in ("started", "ended") if kind in given}
    limits = given.pop("limits", None)
    async with a_node(function, limits=limits, **hooks) as (_, _, session):
        session.send(asked(1, parameters, **given))
        return await session.expect(Result), session


def asked(run: int, parameters: Any = None, **given: Any) -> Any:
    raw = msgspec.Raw(msgspec.json.encode(parameters or {}))
    return request(run, parameters=raw, **given)


def lines_of(session: Session, run: int = 1) -> list[str]:
    chunks = [chunk for chunk in session.all(LogChunk) if chunk.run == run]
    return [line.text for chunk in chunks for line in chunk.lines]


def is_alive(pid: int) -> bool:
    """Whether the process goes on: one that is dead and not buried does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


# --- what a handler can do ------------------------------------------------------------------------


async def test_a_handler_in_a_process_has_all_that_others_have() -> None:
    given = {
        "timeout_ms": 60_000,
        "recovering": True,
        "state": msgspec.Raw(b'{"n": 4}'),
        "checkpoint": msgspec.Raw(b'{"done": 0}'),
    }
    (result, session), (other, _) = await asyncio.gather(
        run_once(work.look, {"month": "2026-03"}, **given), run_once(work.look)
    )
    seen = value(result)
    assert seen.pop("pid") != os.getpid()
    assert seen == {
        "month": "2026-03",
        "parameters": {"month": "2026-03"},
        "checkpoint": {"done": 0},
        "deadline": True,
        "recovering": True,
    }
    assert (result.outcome, result.message) == (Outcome.SUCCEEDED, "")
    assert msgspec.json.decode(result.state or b"") == {"n": 5}
    assert lines_of(session) == ["from run.log", "from logging", "from print"]
    assert (session.all(Progress)[0].fraction, session.all(Progress)[0].text) == (0.5, "half")
    assert msgspec.json.decode(other.checkpoint) == {"done": 1}


async def test_async_handlers_and_bound_methods() -> None:
    (seen, _), (greeted, _) = await asyncio.gather(
        run_once(work.look_async), run_once(work.Service("Ada").greet)
    )
    assert value(seen)["pid"] != os.getpid()
    assert value(seen)["same"]
    assert value(greeted) == "Ada greets run 1"


async def test_processes_are_used_again_and_grow_with_the_work() -> None:
    async with a_node(work.pid, slots=2) as (_, _, session):
        session.send(asked(1))
        first = value(await session.expect(Result))
        session.send(asked(2))
        assert value(await session.expect(Result)) == first
        session.send(asked(3), asked(4))
        two = {value(await session.expect(Result)), value(await session.expect(Result))}
        assert len(two) == 2
        assert first in two
    assert not any(is_alive(pid) for pid in two)  # the node has ended


async def test_idle_processes_end_but_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_runner, "IDLE_SECONDS", 0.05)
    async with a_node(work.pid, slots=2) as (node, _, session):
        session.send(asked(1), asked(2))
        pids = [value(await session.expect(Result)) for _ in range(2)]
        await wait_until_async(lambda: sum(map(is_alive, pids)) == 1)
        session.send(asked(3))
        assert value(await session.expect(Result)) in pids  # that one is used again
        runner = node._in_flight._process_runner
        assert runner is not None
        assert len(runner._all) == 1


async def test_hooks_run_in_the_process() -> None:
    result, session = await run_once(work.pid, started=work.started, ended=work.ended)
    pid = value(result)
    assert lines_of(session) == [f"started in {pid}", f"ended in {pid}: succeeded"]


async def test_wrong_parameters_reach_no_process() -> None:
    result, _ = await run_once(work.look, {"month": 3})
    assert (result.outcome, result.final) == (Outcome.FAILED, True)
    assert result.message == "parameters: month: expected str, got int"


async def test_what_is_no_text_is_told_as_well_as_can_be() -> None:
    result, session = await run_once(work.says_what_is_no_text)
    assert (result.message, result.retry_after_ms) == ("cannot send caf?", 3000)
    assert lines_of(session) == ["sending caf?", "Retry: cannot send caf?"]
    assert session.all(Progress)[0].text == "caf?"


async def test_many_lines_arrive_in_order_and_none_is_lost() -> None:
    result, session = await run_once(work.chatters, {"lines": 5_000})
    assert result.outcome is Outcome.SUCCEEDED
    assert [int(line[:6]) for line in lines_of(session)] == list(range(5_000))
    assert result.log_lines == 5_000


async def test_a_process_waits_while_the_log_has_no_room() -> None:
    async with a_node(work.chatters) as (node, admin, session):
        admin.keeps_log = False
        session.send(asked(1, {"lines": 20_000}))  # 20 MB, of which 1 MiB may be on its way
        await wait_until_async(lambda: len(lines_of(session)) > 900)
        stale = lines_of(session)
        assert len(stale) < 4_000
        session.send(cancel(1))  # who is to end does not wait
        assert (await session.expect(Result)).outcome is Outcome.CANCELLED
        node.abort()  # without waiting for receipts


# --- bad days -------------------------------------------------------------------------------------


ENDS = {
    "retry": (Outcome.FAILED, "later", "Retry: later"),
    "fail": (Outcome.FAILED, "never", "Fail: never"),
    "skip": (Outcome.SKIPPED, "not today", "Skip: not today"),
    "raise": (Outcome.FAILED, "LookupError: no such customer", "Traceback (most recent call"),
    "no json": (Outcome.FAILED, "return value cannot be written as JSON", "cannot be written"),
    "exit": (Outcome.FAILED, "the handler called sys.exit(4)", "Traceback"),
    "fork": (Outcome.SUCCEEDED, "", "before the fork"),
    "os._exit": (Outcome.FAILED, "process ended with exit code 3", "the last words"),
    "abort": (Outcome.FAILED, "process was killed by SIGABRT", "the last words"),
    "kill": (Outcome.FAILED, "was killed by SIGKILL (out of memory?)", "the handler's process"),
}


async def test_however_a_handler_ends_its_run_is_told_and_the_next_one_runs() -> None:
    async with a_node(work.says) as (_, _, session):
        for run, (word, (outcome, message, line)) in enumerate(ENDS.items(), start=1):
            session.send(asked(run, {"word": word}))
            result = await session.expect(Result)
            lines = lines_of(session, run)
            assert (result.outcome, result.final) == (outcome, word == "fail"), word
            assert message in result.message
            assert result.retry_after_ms == (3_000 if word == "retry" else None)
            assert line in lines[0]
            if word == "fork":
                assert value(result) == "from the parent"
                assert lines == ["before the fork"]


async def test_secrets_are_hidden_in_what_a_process_writes(
    capfd: pytest.CaptureFixture[str],
) -> None:
    secret = "canary/7c1f9e"
    async with a_node(work.tells) as (_, _, session):
        for run in (1, 2):
            session.send(asked(run, {"key": secret}, secrets=[secret], try_number=run))
            await session.expect(Result)
        assert lines_of(session, 1) == ["•••", "the key is •••"]
        kinds = (LogChunk, Progress, Checkpoint, Result)
        received = msgspec.json.encode([session.all(kind) for kind in kinds]).decode()
    printed = "".join(capfd.readouterr())  # by the process as well, for it has our streams
    assert "•••" in received
    assert "•••" in printed
    assert "canary" not in received + printed


async def test_a_death_is_noticed_where_it_cannot_be_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")  # as on macOS
    result, session = await run_once(work.says, {"word": "os._exit"})
    assert "process ended with exit code 3" in result.message
    assert lines_of(session)[0] == "the last words"


async def test_a_module_that_breaks_in_the_process_fails_the_run_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaks_elsewhere.py").write_text(
        "from tickwheel_executor.process.pool import in_pool_process\n"
        "assert not in_pool_process(), 'no settings'\n"
        "def work(): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("breaks_elsewhere")
    monkeypatch.setitem(sys.modules, "breaks_elsewhere", module)
    result, session = await run_once(module.work)
    assert result.outcome is Outcome.FAILED
    assert result.message == (
        "handler 'work' could not be loaded in a process of its own: AssertionError: no settings"
    )
    assert "breaks_elsewhere.py" in "\n".join(lines_of(session))


def test_the_guard_kills_what_is_left_and_is_replaced_when_it_is_killed() -> None:
    sleepers = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(3)]
    guard = ProcessGuard()
    guard.watch(sleepers[0].pid)
    guard.watch(sleepers[1].pid)
    assert guard._process is not None
    guard._process.kill()
    guard._process.wait()
    guard.forget(sleepers[1].pid)
    guard.watch(sleepers[2].pid)
    guard.close()  # as when the node ends
    assert [sleepers[0].wait(10), sleepers[2].wait(10)] == [-signal.SIGKILL] * 2
    assert sleepers[1].poll() is None
    sleepers[1].kill()
    sleepers[1].wait()


def test_a_service_without_such_handlers_imports_nothing_of_it() -> None:
    code = (
        "import sys, tickwheel_executor\n"
        "wanted = {'multiprocessing', 'tickwheel_executor.handlers.pickling', 'resource'}\n"
        "sys.exit(str(wanted & set(sys.modules)) if wanted & set(sys.modules) else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_process_in_which_a_handler_left_a_thread_is_not_used_again() -> None:
    async with a_node(work.says) as (_, _, session):
        pids = []
        for run in range(1, 3):
            session.send(asked(run, {"word": "thread"}))
            pids.append(value(await session.expect(Result)))
        assert pids[0] != pids[1]
        assert not is_alive(pids[0])


async def test_memory_above_the_limit_fails_the_run_and_nothing_else() -> None:
    async with a_node(work.hogs_memory, limits=BOUNDED) as (_, _, session):
        session.send(asked(1))
        result = await session.expect(Result)
        assert result.outcome is Outcome.FAILED
        assert result.message == "MemoryError (it may take 200 MB: memory_mb)"


async def test_cpu_time_above_the_limit_ends_the_process() -> None:
    result, _ = await run_once(work.hogs_cpu, limits=BOUNDED)
    assert result.outcome is Outcome.FAILED
    assert result.message == (
        "the handler's process was killed by SIGXCPU: it used more than 1 s of CPU time "
        "(cpu_seconds)"
    )


# --- stopping -------------------------------------------------------------------------------------


def cancel(run: int, reason: CancelReason = CancelReason.OPERATOR) -> Cancel:
    return Cancel(run=run, attempt=1, token=f"token-{run}-1", reason=reason)


async def asleep(session: Session) -> None:
    await session.expect(Accepted)
    await wait_until_async(lambda: lines_of(session))


@pytest.mark.parametrize("function", [work.sleeps, work.sleeps_async])
async def test_a_cancel_ends_a_handler_wherever_it_waits(
    function: Callable[..., Any], tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    async with a_node(function) as (_, _, session):
        session.send(asked(1, {"mark": str(mark)}))
        await asleep(session)
        session.send(cancel(1))
        result = await session.expect(Result)
        assert (result.outcome, result.message) == (Outcome.CANCELLED, "cancelled by an operator")
        assert mark.read_text() == "cleaned up"
        session.send(asked(2, {"mark": str(mark)}, timeout_ms=1))  # before it has begun, perhaps
        assert (await session.expect(Result)).outcome is Outcome.TIMED_OUT


async def test_what_hangs_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = replace(admission.STOPS[CancelReason.TIMEOUT], grace_seconds=0.2)
    monkeypatch.setitem(admission.STOPS, CancelReason.TIMEOUT, impatient)
    mark = tmp_path / "mark"
    async with a_node(work.hangs) as (_, _, session):
        session.send(asked(1, {"mark": str(mark)}))
        await asleep(session)
        session.send(cancel(1, CancelReason.TIMEOUT))
        result = await session.expect(Result)
        assert result.outcome is Outcome.TIMED_OUT
        assert result.message == "past its timeout; its process was killed 0.2 s later"
        assert "about to hang" in lines_of(session)  # written right before
        pids = [int(pid) for pid in mark.read_text().split()]
        assert len(pids) == 2
        assert not any(is_alive(pid) for pid in pids)  # when the result is there, all is over


async def test_nothing_goes_on_when_its_node_is_shut_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "_KILL_SECONDS", 0.2)
    mark = tmp_path / "mark"
    async with a_node(work.hangs) as (node, _, session):
        session.send(asked(1, {"mark": str(mark)}))
        await asleep(session)
        assert await node.drain(0)  # killed, and reported, before the node has ended
        result = session.all(Result)[0]
        assert result.outcome is Outcome.FAILED
        assert "the node was shut down" in result.message
        assert not any(is_alive(int(pid)) for pid in mark.read_text().split())


async def test_a_process_ends_its_handler_when_its_node_hears_nothing(tmp_path: Path) -> None:
    """As it must when its node alone was frozen: nobody tells the process anything."""
    mark = tmp_path / "mark"

    async def result_of(function: Callable[..., Any], parameters: Any) -> Result:
        async with a_node(function) as (node, admin, session):
            admin.answers_heartbeats = False
            runner = node._in_flight._process_runner
            assert runner is not None
            node._in_flight._lease_guard.watch = lambda attempt: None  # type: ignore[method-assign]
            session.send(asked(1, parameters, stop_when_cut_off=True))
            await asleep(session)
            runner.renew_lease(asyncio.get_running_loop().time() + 0.2)
            return await session.expect(Result)

    ended, killed = await asyncio.gather(
        result_of(work.sleeps, {"mark": str(mark)}), result_of(work.stays, {})
    )
    assert ended.outcome is killed.outcome is Outcome.CUT_OFF
    assert mark.read_text() == "cleaned up"
    assert "killed 2 s later" not in ended.message
    assert "killed 2 s later" in killed.message


async def test_a_run_with_much_to_begin_from_arrives_in_one_piece() -> None:
    text = {"text": "x" * 60_000}
    raw = msgspec.Raw(msgspec.json.encode(text))
    async with a_node(work.weighs) as (node, _, session):
        runner = node._in_flight._process_runner
        assert runner is not None
        for number in range(1, 6):
            session.send(asked(number, text, state=raw, checkpoint=raw))
            await session.expect(Accepted)
            for _ in range(50):
                runner.renew_lease(1e9)
                await asyncio.sleep(0)
            assert value(await session.expect(Result)) == 180_000


def test_a_handler_has_time_to_clean_up() -> None:
    assert {stop.grace_seconds for stop in admission.STOPS.values()} == {5.0}
    assert CUT_OFF_GRACE_SECONDS == 2.0
    assert shutdown._KILL_SECONDS < shutdown.STOP_SECONDS


# --- before the start -----------------------------------------------------------------------------


def test_what_another_process_cannot_import_is_refused_before_the_start() -> None:
    def local(run: Any) -> None: ...

    handlers = Handlers()
    handlers.add("local", local, Limits())
    with pytest.raises(HandlerError, match=r"handler 'local': .*at the top level of a module"):
        handlers.close()
    handlers = Handlers()
    handlers.add("pid", work.pid, Limits())
    handlers.hooks.started.append(local)
    with pytest.raises(HandlerError, match=r"hook .*local.*at the top level of a module"):
        handlers.close()


@pytest.mark.parametrize(
    ("isolation", "limits", "words"),
    [
        ("thread", {}, "not 'thread'"),
        (None, {"memory_mb": 5}, "memory_mb needs isolation"),
        ("process", {"memory_mb": 0}, "memory_mb is 0"),
        ("process", {"memory_mb": 1.5}, "memory_mb is 1.5"),
        ("process", {"cpu_seconds": "5"}, "cpu_seconds is '5'"),
    ],
)
def test_impossible_limits(isolation: str | None, limits: dict[str, Any], words: str) -> None:
    with pytest.raises(HandlerError, match=words):
        limits_of("work", isolation, **{"memory_mb": None, "cpu_seconds": None, **limits})


def test_a_process_handler_can_be_stopped() -> None:
    handlers = Handlers()
    handlers.add("a", work.pid, Limits())
    handlers.add("b", work.pid)
    assert handlers.unstoppable == ["b"]
