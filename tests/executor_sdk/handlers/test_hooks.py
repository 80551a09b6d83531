"""What a service does before and after each of its handlers, and when a run is given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.executor_sdk.scripted_admin import (
    TOKEN,
    ScriptedAdmin,
    Session,
    connect,
    make_node,
    request,
)
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Ending, Executor, HandlerError, Run, Skip, current_run
from tickwheel_executor.handlers.hooks import Hooks
from tickwheel_shared.protocol import Cancel, CancelReason, LogChunk, Outcome, Result


class Journal:
    """Hooks that note what they are told, and where."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def started(self, run: Run) -> None:
        assert current_run() is run
        self.notes.append(("started", run.id))

    def ended(self, run: Run, ending: Ending) -> None:
        assert current_run() is run
        self.notes.append((ending.outcome, ending.message, ending.seconds))

    def lost(self, run: Run) -> None:
        assert current_run() is run
        self.notes.append(("lost", run.id))

    async def async_started(self, run: Run) -> None:
        await asyncio.sleep(0)
        self.notes.append(("async started", run.id))

    async def async_ended(self, run: Run, ending: Ending) -> None:
        await asyncio.sleep(0)
        self.notes.append(("async", ending.outcome))


async def run_once(work: Callable[..., Any], **hooks: Any) -> tuple[Result, list[str]]:
    _, node, session = await connect({"work": work}, **hooks)
    session.send(request())
    result = await session.expect(Result)
    assert await node.drain(1)
    return result, lines_of(session)


def lines_of(session: Session) -> list[str]:
    return [line.text for chunk in session.all(LogChunk) for line in chunk.lines]


async def good(run: Run) -> int:
    await asyncio.sleep(2)
    return 1


async def bad(run: Run) -> None:
    raise LookupError("no such customer")


async def skips(run: Run) -> None:
    raise Skip("nothing to do")


async def no_json(run: Run) -> object:
    return object()


@pytest.mark.parametrize(
    ("work", "outcome", "message", "seconds"),
    [
        (good, "succeeded", "", 2.0),
        (bad, "failed", "LookupError: no such customer", 0.0),
        (skips, "skipped", "nothing to do", 0.0),
        (no_json, "failed", "the handler's return value cannot be written as JSON", 0.0),
    ],
)
def test_hooks_are_told_how_it_began_and_ended(
    work: Any, outcome: str, message: str, seconds: float
) -> None:
    @virtual_time
    async def check() -> None:
        journal = Journal()
        result, _ = await run_once(work, started=journal.started, ended=journal.ended)
        begun, (told, said, took) = journal.notes
        assert begun == ("started", 1)
        assert (told, took) == (outcome, pytest.approx(seconds))
        assert (result.outcome.value, result.message) == (told, said)
        assert message in said

    check()


@virtual_time
async def test_async_hooks_and_plain_ones_run_in_the_order_of_their_names() -> None:
    journal = Journal()
    admin = ScriptedAdmin()
    node = make_node(
        admin, handlers={"work": good}, started=journal.started, ended=journal.async_ended
    )
    node._handlers.hooks.started.append(journal.async_started)
    await node.start()
    session = await admin.session()
    session.send(request())
    await session.expect(Result)
    assert journal.notes == [("started", 1), ("async started", 1), ("async", "succeeded")]
    await node.drain(1)


async def test_hooks_of_a_plain_handler_run_in_its_thread_async_ones_too() -> None:
    threads: list[int] = []

    def work(run: Run) -> None:
        threads.append(threading.get_ident())

    def started(run: Run) -> None:
        assert current_run() is run
        threads.append(threading.get_ident())

    async def ended(run: Run, ending: Ending) -> None:
        assert current_run() is run
        threads.append(threading.get_ident())

    await run_once(work, started=started, ended=ended)
    assert len(threads) == 3
    assert len({*threads, threading.get_ident()}) == 2


@virtual_time
async def test_what_a_hook_raises_before_a_handler_ends_the_run_with_it() -> None:
    called = []

    async def work(run: Run) -> None:
        called.append(run)

    def closed_on_sundays(run: Run) -> None:
        raise Skip("it is Sunday")

    def broken(run: Run) -> None:
        raise LookupError("no connection")

    journal = Journal()
    result, _ = await run_once(work, started=closed_on_sundays, ended=journal.ended)
    assert (result.outcome, result.message) == (Outcome.SKIPPED, "it is Sunday")
    assert journal.notes[0][:2] == ("skipped", "it is Sunday")  # what was begun may be tidied up
    result, _ = await run_once(work, started=broken)
    assert (result.outcome, result.message) == (Outcome.FAILED, "LookupError: no connection")
    assert called == []


@virtual_time
async def test_what_a_hook_raises_after_a_handler_is_only_told() -> None:
    def broken(run: Run, ending: Ending) -> None:
        raise LookupError("no metrics")

    result, lines = await run_once(good, ended=broken)
    assert result.outcome is Outcome.SUCCEEDED
    assert "broken failed" in lines[0]
    assert lines[-1] == "LookupError: no metrics"


@virtual_time
async def test_a_cancelled_run_ends_for_its_hooks_as_it_does_for_the_admin() -> None:
    journal = Journal()
    _, node, session = await connect({"work": good}, ended=journal.ended, lost=journal.lost)
    session.send(request())
    await asyncio.sleep(1)
    session.send(Cancel(run=1, attempt=1, token="token-1-1", reason=CancelReason.OPERATOR))
    assert (await session.expect(Result)).outcome is Outcome.CANCELLED
    assert journal.notes == [("cancelled", "cancelled by an operator", pytest.approx(1.0))]
    await node.drain(1)


@virtual_time
async def test_a_cancel_during_the_last_hook_comes_too_late() -> None:
    waits = asyncio.Event()

    async def slow(run: Run, ending: Ending) -> None:
        waits.set()
        await asyncio.sleep(60)

    _, node, session = await connect({"work": good}, ended=slow)
    session.send(request())
    await waits.wait()
    session.send(Cancel(run=1, attempt=1, token="token-1-1", reason=CancelReason.OPERATOR))
    assert (await session.expect(Result)).outcome is Outcome.SUCCEEDED
    assert asyncio.get_running_loop().time() < 10  # the hook was ended
    await node.drain(1)


@virtual_time
async def test_a_run_that_counts_no_more_is_told_once() -> None:
    journal = Journal()
    _, node, session = await connect({"work": good}, lost=journal.lost)
    session.send(request())
    await asyncio.sleep(1)
    stale = Cancel(run=1, attempt=1, token="token-1-1", reason=CancelReason.STALE)
    session.send(stale, stale)
    assert (await session.expect(Result)).outcome is Outcome.CANCELLED
    assert journal.notes == [("lost", 1)]
    await node.drain(1)


@virtual_time
async def test_a_node_that_is_cut_off_tells_of_what_it_stops() -> None:
    told = asyncio.Event()

    async def lost(run: Run) -> None:
        assert current_run() is run
        told.set()

    async def work(run: Run) -> None:
        await asyncio.sleep(1_000)

    admin, node, session = await connect({"work": work}, lost=lost)
    session.send(request(stop_when_cut_off=True))
    await asyncio.sleep(1)
    admin.up = admin.answers_heartbeats = False
    async with asyncio.timeout(15):
        await told.wait()
    node.abort()


def test_a_broken_hook_for_lost_runs_keeps_none_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal = Journal()

    def broken(run: Run) -> None:
        raise LookupError("no pager")

    class AnyRun:
        id = 7

    Hooks(lost=[broken, journal.lost]).call_lost(AnyRun())  # type: ignore[arg-type]
    assert journal.notes == [("lost", 7)]
    assert "no pager" in caplog.text


def test_hooks_are_named_before_the_start() -> None:
    executor = Executor("billing", admins=["http://x"], token=TOKEN)

    @executor.on_started
    def first(run: Run) -> None: ...

    @executor.on_ended
    def second(run: Run, ending: Ending) -> None: ...

    @executor.on_lost
    def third(run: Run) -> None: ...

    hooks = executor.handlers.hooks
    assert (hooks.started, hooks.ended, hooks.lost) == ([first], [second], [third])
    with pytest.raises(HandlerError, match="a hook is a function"):
        executor.on_started("no function")  # type: ignore[type-var]
    executor.handlers.close()
    with pytest.raises(HandlerError, match="too late"):
        executor.on_started(first)
