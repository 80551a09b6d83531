"""What handlers hand on: the job's state to its next run, checkpoints to the next try."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.executor_sdk.scripted_admin import ScriptedAdmin, connect, make_node, request, value
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import CheckpointError, Fail, Run, Skip, StateUnavailableError
from tickwheel_executor.handlers.decoding import decode
from tickwheel_executor.handlers.signature import Signature
from tickwheel_shared.protocol import Accepted, Cancel, CancelReason, Checkpoint, Outcome, Result

HANDLER = Callable[[Run], Awaitable[Any]]
TOO_LARGE = "x" * (64 * 1024)


def raw(given: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(given).encode())


def left(result: Result) -> tuple[Any, Any]:
    """State and checkpoint that a result carries."""
    return json.loads(bytes(result.state)), json.loads(bytes(result.checkpoint))


def data(message: Checkpoint) -> tuple[int, Any]:
    return message.seq, json.loads(bytes(message.data))


async def run_once(handler: Callable[..., Any], **given: object) -> Result:
    """The result of one attempt that is given this."""
    _, node, session = await connect({"work": handler})
    session.send(request(**{name: raw(each) for name, each in given.items()}))
    result = await session.expect(Result)
    assert await node.drain(1)
    return result


@pytest.mark.parametrize("name", ["parameters", "state", "checkpoint"])
def test_what_is_nested_too_deeply_to_be_read_fails_the_attempt(name: str) -> None:
    deep = msgspec.Raw(b'{"a":' * 5_000 + b"1" + b"}" * 5_000)
    with pytest.raises((Fail, ValueError), match="recursion"):
        decode(request(**{name: deep}), Signature("h", lambda run: None))


# --- state ---------------------------------------------------------------------------------------


@virtual_time
async def test_what_a_handler_leaves_in_the_state_goes_with_its_success() -> None:
    async def count(run: Run) -> int:
        run.state["n"] = run.state.get("n", 0) + 1
        return int(run.state["n"])

    result = await run_once(count, state={"n": 41, "since": "2026-03-01"})
    assert value(result) == 42
    assert left(result) == ({"n": 42, "since": "2026-03-01"}, None)
    assert left(await run_once(count, state={})) == ({"n": 1}, None)


@virtual_time
async def test_another_dict_may_be_assigned_and_nothing_else() -> None:
    async def anew(run: Run) -> None:
        with pytest.raises(TypeError, match="not list"):
            run.state = []  # type: ignore[assignment]
        run.state = {"anew": True}

    assert left(await run_once(anew, state={"n": 1})) == ({"anew": True}, None)


@virtual_time
async def test_a_state_that_was_not_changed_is_not_sent() -> None:
    async def look(run: Run) -> None:
        assert run.state == {"b": 1, "a": [1.5, "发票"]}

    assert left(await run_once(look, state={"b": 1, "a": [1.5, "发票"]})) == (None, None)


@virtual_time
async def test_skipping_keeps_the_state_and_failing_does_not() -> None:
    def ending(error: Exception) -> HANDLER:
        async def end(run: Run) -> None:
            run.state["seen"] = True
            raise error

        return end

    assert left(await run_once(ending(Skip("nothing new")), state={})) == ({"seen": True}, None)
    for error in (Fail("never"), LookupError("no such row")):
        assert left(await run_once(ending(error), state={})) == (None, None)


@virtual_time
async def test_a_job_that_keeps_no_state_says_so() -> None:
    async def use(run: Run) -> None:
        with pytest.raises(StateUnavailableError, match=r"'a job' keeps no state.*one after"):
            run.state = {}
        run.state["n"] = 1

    result = await run_once(use)
    assert result.outcome is Outcome.FAILED
    assert result.message.startswith("StateUnavailableError: the job 'a job' keeps no state")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"text": TOO_LARGE}, "the state is 65,547 bytes of JSON; the limit is 65,536"),
        ({"when": object()}, "the state cannot be written as JSON"),
    ],
)
def test_a_state_that_cannot_be_kept_fails_the_run(state: dict[str, Any], words: str) -> None:
    async def leave(run: Run) -> str:
        run.state = state
        return "done"

    @virtual_time
    async def check() -> None:
        result = await run_once(leave, state={})
        assert (result.outcome, left(result)) == (Outcome.FAILED, (None, None))
        assert words in result.message

    check()


@virtual_time
async def test_what_cannot_be_read_fails_the_attempt_with_words() -> None:
    result = await run_once(lambda run: None, state=[1])
    assert result.outcome is Outcome.FAILED
    assert "the state or the checkpoint cannot be read" in result.message


# --- checkpoints ---------------------------------------------------------------------------------


@virtual_time
async def test_a_try_goes_on_where_the_one_before_came_to() -> None:
    async def steps(run: Run) -> list[int]:
        begin = run.checkpoint["done"] if run.checkpoint else 0
        for step in range(begin, 4):
            if run.try_number == 1 and step == 2:
                raise LookupError("the network")
            run.save_checkpoint({"done": step + 1})
        assert run.checkpoint == (None if begin == 0 else {"done": begin})
        return list(range(begin, 4))

    first = await run_once(steps)
    assert (first.outcome, left(first)) == (Outcome.FAILED, (None, {"done": 2}))
    _, node, session = await connect({"work": steps})
    session.send(request(1, 2, try_number=2, checkpoint=first.checkpoint))
    second = await session.expect(Result)
    assert value(second) == [2, 3]
    assert left(second) == (None, None)  # it succeeded: nobody goes on from there
    await node.drain(1)


@virtual_time
async def test_checkpoints_leave_at_once_then_once_a_second_and_only_the_newest() -> None:
    admin, gate = ScriptedAdmin(), asyncio.Event()

    async def work(run: Run) -> None:
        for step in range(20):
            run.save_checkpoint(step)
            await asyncio.sleep(0.15)
        await gate.wait()

    _, node, session = await connect({"work": work}, admin=admin)
    session.send(request())
    await session.expect(Accepted)
    await asyncio.sleep(10)
    assert [data(message) for message in session.all(Checkpoint)] == [
        (1, 0),
        (7, 6),
        (14, 13),
        (20, 19),
    ]
    gate.set()
    await session.expect(Result)
    await node.drain(1)


@virtual_time
async def test_a_checkpoint_whose_socket_closed_goes_over_another_one() -> None:
    one, two, gate = (
        ScriptedAdmin(),
        ScriptedAdmin("admin-2", url="http://admin-2:8500"),
        asyncio.Event(),
    )

    async def work(run: Run) -> None:
        run.save_checkpoint("kept")
        await gate.wait()

    node = make_node(one, two, handlers={"work": work})
    await node.start()
    first, second = await one.session(), await two.session()
    first.send(request())
    assert data(await first.expect(Checkpoint)) == (1, "kept")
    await asyncio.sleep(5)
    assert not second.all(Checkpoint)
    one.up = False
    first.close()
    assert data(await second.expect(Checkpoint)) == (1, "kept")
    two.up = False
    second.close()
    await asyncio.sleep(60)
    one.up = True
    again = await one.session(1)
    assert data(await again.expect(Checkpoint)) == (1, "kept")
    gate.set()
    await again.expect(Result)
    await node.drain(1)


@virtual_time
async def test_a_stopped_attempt_says_how_far_it_came() -> None:
    admin = ScriptedAdmin()

    async def work(run: Run) -> None:
        run.save_checkpoint(1)
        try:
            await asyncio.sleep(3600)
        finally:
            run.save_checkpoint({"cleaned": True})

    _, node, session = await connect({"work": work}, admin=admin)
    session.send(request())
    await session.expect(Checkpoint)
    session.send(Cancel(run=1, attempt=1, token="token-1-1", reason=CancelReason.TIMEOUT))
    result = await session.expect(Result)
    assert (result.outcome, left(result)) == (Outcome.TIMED_OUT, (None, {"cleaned": True}))
    await node.drain(1)


@virtual_time
async def test_a_checkpoint_can_be_taken_back() -> None:
    async def work(run: Run) -> None:
        run.save_checkpoint("half")
        await asyncio.sleep(5)
        run.save_checkpoint(None)
        raise LookupError("begin anew")

    _, node, session = await connect({"work": work})
    session.send(request())
    result = await session.expect(Result)
    assert left(result) == (None, None)
    assert [data(message) for message in session.all(Checkpoint)] == [(1, "half"), (2, None)]
    await node.drain(1)


@virtual_time
async def test_a_checkpoint_that_cannot_be_kept_is_refused_and_the_one_before_stays() -> None:
    async def work(run: Run) -> None:
        run.save_checkpoint("good")
        for bad in (TOO_LARGE, {1: object()}):
            with pytest.raises(CheckpointError, match=r"the checkpoint (is 65,538|cannot be)"):
                run.save_checkpoint(bad)
        raise LookupError("and fail")

    assert left(await run_once(work)) == (None, "good")


async def test_a_thread_saves_and_what_it_saves_after_its_end_does_not_count() -> None:
    kept: list[Run] = []
    saved = threading.Event()

    def work(run: Run) -> None:
        kept.append(run)
        run.save_checkpoint({"row": 7})
        assert saved.wait(10)
        run.save_checkpoint({"row": 8})
        raise LookupError("the disk")

    _, node, session = await connect({"work": work})
    session.send(request())
    assert data(await session.expect(Checkpoint)) == (1, {"row": 7})
    saved.set()
    assert left(await session.expect(Result)) == (None, {"row": 8})
    kept[0].save_checkpoint("too late")
    assert await node.drain(1)
    assert [seq for seq, _ in map(data, session.all(Checkpoint))] == [1]
