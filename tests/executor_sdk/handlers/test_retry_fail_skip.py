"""Retry, Fail and Skip: a handler says in words what its end means."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from tests.executor_sdk.scripted_admin import ScriptedAdmin, connect, request, value
from tests.executor_sdk.spool.test_file_spool import die
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Fail, Retry, Run, Skip, TickwheelExecutorError
from tickwheel_executor.spool.file_spool import FileSpool
from tickwheel_shared.protocol import (
    MAX_MESSAGE_CHARS,
    Accepted,
    Cancel,
    CancelReason,
    Level,
    LogChunk,
    Outcome,
    Result,
)

WEEK_MS = 7 * 24 * 3600 * 1000

# What is raised, and what an admin is told: outcome, message, retry_after_ms, final.
WORDS = [
    pytest.param(
        Retry("503 of the provider", after=30),
        (Outcome.FAILED, "503 of the provider", 30_000, False),
        id="retry-after",
    ),
    pytest.param(
        Retry("busy"), (Outcome.FAILED, "busy", None, False), id="retry-as-the-policy-says"
    ),
    pytest.param(
        Retry(after=0), (Outcome.FAILED, "the handler asks for another try", 0, False), id="at-once"
    ),
    pytest.param(Fail("no such order"), (Outcome.FAILED, "no such order", None, True), id="fail"),
    pytest.param(Skip("nothing to do"), (Outcome.SKIPPED, "nothing to do", None, False), id="skip"),
]


def told(result: Result) -> tuple[Outcome, str, int | None, bool]:
    return result.outcome, result.message, result.retry_after_ms, result.final


async def run_once(error: TickwheelExecutorError, *, plain: bool) -> tuple[Result, list[str]]:
    """The result and the log of a handler that raises this."""

    async def on_the_loop() -> None:
        raise error

    def in_a_thread() -> None:
        raise error

    _, node, session = await connect({"work": in_a_thread if plain else on_the_loop})
    session.send(request())
    result = await session.expect(Result)
    assert value(result) is None
    assert await node.drain(1)
    lines = [line for chunk in session.all(LogChunk) for line in chunk.lines]
    assert result.log_lines == len(lines)
    assert {line.level for line in lines} == {
        Level.INFO if isinstance(error, Skip) else Level.ERROR
    }
    return result, [line.text for line in lines]


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize(("error", "wanted"), WORDS)
async def test_what_a_handler_says_is_told_without_a_traceback(
    error: TickwheelExecutorError, wanted: tuple[Outcome, str, int | None, bool], plain: bool
) -> None:
    result, lines = await run_once(error, plain=plain)
    assert told(result) == wanted
    assert lines == [f"{type(error).__name__}: {wanted[1]}"]


async def test_what_it_was_raised_from_is_named_in_the_log() -> None:
    error = Fail("no such order")
    error.__cause__ = LookupError("order 7")
    result, lines = await run_once(error, plain=False)
    assert result.message == "no such order"
    assert lines == ["Fail: no such order (LookupError: order 7)"]


@pytest.mark.parametrize(
    ("after", "milliseconds"),
    [
        (0.0004, 1),  # rounded up: never sooner than asked for
        (1.5, 1_500),
        (timedelta(minutes=2), 120_000),
        (-5, 0),
        (timedelta(days=-1), 0),
        (8 * 24 * 3600, WEEK_MS),
        (timedelta(days=400), WEEK_MS),
        (float("inf"), WEEK_MS),
        (None, None),
    ],
)
def test_the_wait_that_is_asked_for_is_bounded(
    after: float | timedelta | None, milliseconds: int | None
) -> None:
    assert Retry("later", after=after).after_ms == milliseconds


def test_a_wait_that_is_no_number_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not a number"):
        Retry(after=float("nan"))


async def test_a_message_is_made_fit_to_store() -> None:
    result, _ = await run_once(Skip("a\x00b" + "x" * 10_000), plain=False)
    assert result.message.startswith("a\ufffdbx")
    assert len(result.message) == MAX_MESSAGE_CHARS


@virtual_time
async def test_who_was_told_to_stop_cannot_ask_for_another_try() -> None:
    async def work(run: Run) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise Retry("cancelled in the middle", after=5) from None

    _, node, session = await connect({"work": work})
    session.send(request())
    await session.expect(Accepted)
    session.send(Cancel(run=1, attempt=1, token="token-1-1", reason=CancelReason.COVERED))
    result = await session.expect(Result)
    message = "cancelled: a newer run takes its place"
    assert told(result) == (Outcome.CANCELLED, message, None, False)
    lines = [line.text for chunk in session.all(LogChunk) for line in chunk.lines]
    assert lines == [message, "Retry: cancelled in the middle"]
    await node.drain(1)


@pytest.mark.parametrize(("error", "wanted"), WORDS)
async def test_it_survives_the_death_of_the_process_in_the_spool(
    error: TickwheelExecutorError,
    wanted: tuple[Outcome, str, int | None, bool],
    tmp_path: Path,
) -> None:
    async def work() -> None:
        raise error

    admin = ScriptedAdmin()
    admin.gives_receipts = False
    spool = FileSpool(tmp_path, "a" * 32)
    _, node, session = await connect({"work": work}, spool=spool, admin=admin)
    session.send(request())
    before = await session.expect(Result)
    node.abort()
    die(spool)
    successor = FileSpool(tmp_path, "b" * 32)
    await successor.open()
    (found,) = await successor.adopt()
    assert told(found) == wanted
    assert msgspec.json.encode(found) == msgspec.json.encode(before)
    await successor.close()
