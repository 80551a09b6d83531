"""A node's answers: accepted, refused, results, and never the same attempt twice."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from tests.executor_sdk.scripted_admin import (
    MemorySpool,
    ScriptedAdmin,
    connect,
    request,
    value,
)
from tests.executor_sdk.virtual_time import virtual_time
from tickwheel_executor import Run, current_run
from tickwheel_executor.link.link import FEW
from tickwheel_shared.protocol import (
    Accepted,
    Cancel,
    CancelReason,
    Drain,
    Heartbeat,
    Held,
    LogChunk,
    Outcome,
    Progress,
    Query,
    Refusal,
    Refused,
    Result,
)


class Bench:
    """Handlers that note what happens to them."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int]] = []
        self.gate = asyncio.Event()

    async def work(self, run: Run) -> dict[str, Any]:
        self.started.append((run.id, run.attempt))
        return {"parameters": run.parameters, "job": run.job}

    async def wait(self, run: Run) -> str:
        self.started.append((run.id, run.attempt))
        await self.gate.wait()
        return "waited"

    async def fail(self) -> None:
        raise LookupError("no such customer")

    def handlers(self) -> dict[str, Any]:
        return {"work": self.work, "wait": self.wait, "fail": self.fail}


@virtual_time
async def test_a_run_is_accepted_executed_and_delivered() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers())
    session.send(request(41, 2, parameters=msgspec.Raw(b'{"month": "2024-02"}')))

    accepted = await session.expect(Accepted)
    result = await session.expect(Result)

    assert (accepted.run, accepted.attempt, accepted.token) == (41, 2, "token-41-2")
    assert (result.run, result.attempt, result.token) == (41, 2, "token-41-2")
    assert result.outcome is Outcome.SUCCEEDED
    assert value(result) == {"parameters": {"month": "2024-02"}, "job": "a job"}
    assert result.log_lines == 0
    assert await node.drain(1)


@virtual_time
async def test_what_a_handler_sees_of_its_run() -> None:
    seen: list[Run] = []

    async def look(run: Run) -> None:
        assert current_run() is run
        seen.append(run)

    _, node, session = await connect({"look": look})
    session.send(request(7, 3, handler="look", try_number=2, shard_index=1, shard_total=4))
    await session.expect(Result)
    run = seen[0]

    assert (run.id, run.attempt, run.try_number, run.max_tries) == (7, 3, 2, 3)
    assert (run.shard_index, run.shard_total, run.origin) == (1, 4, "schedule")
    assert run.scheduled_at.isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert run.due_at == run.scheduled_at  # the admin said nothing else
    assert (run.interval_start, run.interval_end) == (None, None)
    assert (run.deadline, run.recovering) == (None, False)
    again = request(7, 4, handler="look", timeout_ms=90_500, recovering=True)
    session.send(again)
    await session.expect(Result)
    assert seen[1].deadline == datetime(2023, 11, 14, 22, 14, 50, 500_000, tzinfo=UTC)
    assert seen[1].recovering
    await node.drain(1)


@virtual_time
async def test_an_attempt_starts_once_whatever_comes_twice() -> None:
    admin, bench = ScriptedAdmin(), Bench()
    admin.gives_receipts = False
    _, node, session = await connect(bench.handlers(), admin=admin)
    message = request(1, 1, handler="wait")
    session.send(message, message)
    await session.expect(Accepted)
    await session.expect(Accepted)  # held: the repeated one is answered alike
    bench.gate.set()
    await session.expect(Result)
    session.send(message)
    again = await session.expect(Result)  # ended, no receipt: the result itself
    assert value(again) == "waited"
    admin.gives_receipts = True
    session.send(message)
    await session.expect(Result)
    await asyncio.sleep(1)
    session.send(message)
    remembered = await session.expect(Result)  # ended, receipted: how it ended

    assert remembered.outcome is Outcome.SUCCEEDED
    assert bench.started == [(1, 1)]
    session.send(request(1, 2, handler="wait"))
    await session.expect(Accepted)  # the next attempt is another one
    assert await node.drain(1)


@virtual_time
async def test_a_finished_attempt_is_remembered_for_a_quarter_of_an_hour() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers())
    session.send(request())
    await session.expect(Result)
    await asyncio.sleep(15 * 60)
    session.send(request())
    await session.expect(Result)
    assert bench.started == [(1, 1)]
    await node.drain(1)


@virtual_time
async def test_a_query_for_an_unknown_attempt_forbids_it() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers())
    session.send(Query(run=9, attempt=1, token="token-9-1"))
    assert (await session.expect(Refused)).reason is Refusal.NEVER_SEEN
    session.send(request(9, 1))  # the run that was overtaken by its query

    assert (await session.expect(Refused)).reason is Refusal.NEVER_SEEN
    session.send(Cancel(run=10, attempt=1, token="x", reason=CancelReason.STALE))
    assert (await session.expect(Refused)).reason is Refusal.NEVER_SEEN
    session.send(request(10, 1, token="x"))
    assert (await session.expect(Refused)).reason is Refusal.NEVER_SEEN
    assert bench.started == []
    await node.drain(1)


@virtual_time
async def test_a_query_for_a_held_attempt_is_accepted() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers())
    session.send(request(1, 1, handler="wait"))
    await session.expect(Accepted)
    session.send(Query(run=1, attempt=1, token="token-1-1"))
    await session.expect(Accepted)
    session.send(Query(run=1, attempt=1, token="of another claim"))
    assert (await session.expect(Refused)).token == "of another claim"
    bench.gate.set()
    assert (await session.expect(Result)).outcome is Outcome.SUCCEEDED
    await node.drain(1)


@virtual_time
async def test_refusals_full_unknown_handler_and_draining() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers(), slots=1)
    session.send(request(1, handler="wait"), request(2, handler="wait"), request(3, handler="wrok"))
    full, unknown = await session.expect(Refused), await session.expect(Refused)

    assert (full.run, full.reason) == (2, Refusal.FULL)
    assert (unknown.run, unknown.reason) == (3, Refusal.UNKNOWN_HANDLER)
    assert "did you mean 'work'?" in unknown.message
    bench.gate.set()
    await session.expect(Result)
    session.send(request(2, handler="wait"))  # refused once: never started later
    assert (await session.expect(Refused)).reason is Refusal.FULL
    session.send(Drain(), request(4))
    assert (await session.expect(Refused)).reason is Refusal.DRAINING
    session.send(Drain(on=False), request(5))
    assert (await session.expect(Accepted)).run == 5
    await node.drain(1)


@virtual_time
async def test_an_exception_fails_the_run_and_its_traceback_is_in_the_log() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers())
    session.send(request(handler="fail"))
    chunk = await session.expect(LogChunk)
    result = await session.expect(Result)

    assert (result.outcome, result.message) == (Outcome.FAILED, "LookupError: no such customer")
    text = "\n".join(line.text for line in chunk.lines)
    assert text.startswith("Traceback")
    assert "in fail" in text
    assert "tickwheel_executor" not in text  # the SDK's own frames are of no use to anybody
    assert {line.level for line in chunk.lines} == {"error"}
    assert result.log_lines == len(chunk.lines)
    await node.drain(1)


class Odd(dict[str, int]):
    def __len__(self) -> int:
        raise RuntimeError("it is odd")


def endless() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (object(), "cannot be written as JSON"),
        ("x" * 70_000, "70,002 bytes of JSON"),
        ({"text": "\ud800"}, "cannot be written as JSON"),
        ({"n": 10**400}, "return value cannot be kept: a number in it is beyond ±1.8e308"),
        (10**5_000, "cannot be written as JSON"),
        ([msgspec.Raw(b"1E+999")], "return value cannot be kept: a number in it is beyond"),
        (msgspec.Raw(b"garbage"), "return value cannot be kept: JSON is malformed"),
        (endless(), "cannot be written as JSON"),
        (Odd(), "cannot be written as JSON: it is odd"),
        # A gigabyte of JSON each, of which not even the first megabyte may be written.
        (["x" * 1_000_000] * 1_000, "more than 1,048,576 bytes of JSON"),
        ({"a": {"b": [b"x" * 1_000_000] * 1_000}}, "more than 1,048,576 bytes of JSON"),
        ([[None] * 1_000] * 200_000, "more than 1,048,576 bytes of JSON"),
        ({"k" * 1_000 + str(n): n for n in range(1_100)}, "more than 1,048,576 bytes of JSON"),
    ],
    ids=range(13),
)
def test_a_result_that_cannot_be_kept_fails_the_run(returned: object, words: str) -> None:
    @virtual_time
    async def run() -> None:
        async def give() -> object:
            return returned

        _, node, session = await connect({"give": give})
        session.send(request(handler="give"))
        result = await session.expect(Result)
        assert result.outcome is Outcome.FAILED
        assert words in result.message
        assert value(result) is None
        await node.drain(1)

    run()


@virtual_time
async def test_a_result_of_64_kib_is_kept_and_one_byte_more_is_not() -> None:
    async def give(run: Run) -> str:
        return "x" * run.parameters["length"]

    _, node, session = await connect({"give": give})
    for length, outcome in ((65_534, Outcome.SUCCEEDED), (65_535, Outcome.FAILED)):
        parameters = msgspec.Raw(msgspec.json.encode({"length": length}))
        session.send(request(length, handler="give", parameters=parameters))
        assert (await session.expect(Result)).outcome is outcome
    await node.drain(1)


@virtual_time
async def test_nul_bytes_go_nowhere_raw() -> None:
    async def nul(run: Run) -> dict[str, str]:
        run.log.info("a\x00b")
        run.progress(0.5, "a\x00b")
        if run.id == 2:
            raise ValueError("a\x00b")
        return {"a\x00b": "c\x00d"}

    _, node, session = await connect({"nul": nul})
    session.send(request(1, handler="nul"))
    result = await session.expect(Result)
    assert value(result) == {"a\x00b": "c\x00d"}
    assert b"\x00" not in bytes(result.result)  # escaped, as JSON has it
    session.send(request(2, handler="nul"))
    assert (await session.expect(Result)).message == "ValueError: a\ufffdb"
    texts = [line.text for chunk in session.all(LogChunk) for line in chunk.lines]
    texts += [progress.text for progress in session.all(Progress)]
    assert "a\ufffdb" in texts
    assert not any("\x00" in text for text in texts)
    await node.drain(1)


@virtual_time
async def test_leaving_a_handler_with_sys_exit_or_a_wild_cancel_fails_only_the_run() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def cancel_itself() -> None:
        raise asyncio.CancelledError

    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    async def silent() -> None:
        raise Silent

    admin = ScriptedAdmin()
    handlers = {"leave": leave, "cancel": cancel_itself, "silent": silent}
    _, node, session = await connect(handlers, admin=admin)
    session.send(*(request(n, handler=name) for n, name in enumerate(handlers, start=1)))
    results = [await session.expect(Result) for _ in handlers]

    assert all(result.outcome is Outcome.FAILED for result in results)
    assert "sys.exit(3)" in results[0].message
    assert results[1].message == "CancelledError"
    assert "cannot be shown" in results[2].message
    assert await node.drain(1)


@virtual_time
async def test_parameters_that_are_no_object_fail_the_run() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers())
    session.send(request(parameters=msgspec.Raw(b"[1]")))
    await session.expect(Accepted)
    assert "not a JSON object" in (await session.expect(Result)).message
    await node.drain(1)


@virtual_time
async def test_progress_is_merged_to_one_a_second_and_the_last_one_arrives() -> None:
    async def count(run: Run) -> None:
        for step in range(100):
            run.progress(step / 100, f"step {step}")
            await asyncio.sleep(0.1)
        run.progress(7)
        with pytest.raises(ValueError, match="not a number"):
            run.progress(float("nan"))

    _, node, session = await connect({"count": count})
    session.send(request(handler="count"))
    await session.expect(Result)
    fractions = [message.fraction for message in session.all(Progress)]

    assert 10 <= len(fractions) <= 12
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    await node.drain(1)


@virtual_time
async def test_many_runs_in_one_frame_are_answered_in_few() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers(), slots=500)
    before = session.frames
    session.send(*(request(n) for n in range(1, 501)))
    for _ in range(500):
        await session.expect(Result)
    assert session.frames - before <= 6
    assert len(bench.started) == 500
    await node.drain(1)


@virtual_time
async def test_acceptances_leave_with_the_results_of_runs_that_end_at_once() -> None:
    admin, bench, spool = ScriptedAdmin(), Bench(), MemorySpool()
    spool.write_seconds = 0.002
    _, node, session = await connect(bench.handlers(), slots=100, spool=spool, admin=admin)
    await session.expect(Heartbeat)
    before = session.frames
    session.send(request(1), request(2), *(request(n, handler="wait") for n in range(3, FEW + 2)))
    await session.expect(Result)
    said = [(type(message), message.run) for message in session.received[-FEW - 3 :]]
    assert said == [*((Accepted, n) for n in range(1, FEW + 2)), (Result, 1), (Result, 2)]
    assert session.frames - before == 1
    await node.drain(0)


@virtual_time
async def test_many_acceptances_of_long_runs_wait_five_milliseconds_and_a_few_not_at_all() -> None:
    bench = Bench()
    _, node, session = await connect(bench.handlers(), slots=100)
    await session.expect(Heartbeat)
    few, many = range(1, FEW + 1), range(100, 100 + FEW + 1)
    session.send(*(request(n, handler="wait") for n in few))
    await asyncio.sleep(0.001)
    assert [accepted.run for accepted in session.all(Accepted)] == [*few]
    session.send(*(request(n, handler="wait") for n in many))
    await asyncio.sleep(0.003)
    assert len(bench.started) == 2 * FEW + 1
    assert len(session.all(Accepted)) == FEW
    session.send(request(199, handler="wait"))  # does not make them wait anew
    await asyncio.sleep(0.003)
    assert [accepted.run for accepted in session.all(Accepted)] == [*few, *many, 199]
    await node.drain(0)


@virtual_time
async def test_held_names_what_runs() -> None:
    bench = Bench()
    admin, node, session = await connect(bench.handlers())
    session.send(request(1, handler="wait"), request(2, 5, handler="wait"))
    await session.expect(Accepted)
    session.close()
    second = await admin.session(1)
    keys = [(key.run, key.attempt, key.token) for key in second.all(Held)[0].runs]
    assert keys == [(1, 1, "token-1-1"), (2, 5, "token-2-5")]
    bench.gate.set()
    await second.expect(Result)
    assert await node.drain(1)
