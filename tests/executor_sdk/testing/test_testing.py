"""`tickwheel_executor.testing.run_handler`: a handler alone, with the verdicts of production."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.executor_sdk.runner import process_handlers
from tickwheel_executor import (
    Executor,
    Fail,
    HandlerError,
    Retry,
    Run,
    Skip,
    current_run,
    testing,
)
from tickwheel_executor.testing import run_handler

TOKEN = "t" * 40


async def send_invoices(run: Run) -> dict[str, Any]:
    run.log.info("sending the invoices of %s", run.parameters["month"])
    for done in range(1, 4):
        run.progress(done / 3, f"{done} of 3")
    return {"sent": 3}


def make_executor() -> Executor:
    executor = Executor("billing", admins=["http://localhost:8500"], token=TOKEN)
    executor.handler("send-invoices")(send_invoices)
    return executor


async def test_an_async_handler_in_an_async_test() -> None:
    end = await run_handler(send_invoices, parameters={"month": "2026-03"})
    assert end.succeeded
    assert (end.outcome, end.result, end.message) == ("succeeded", {"sent": 3}, "")
    assert end.log == [("info", "sending the invoices of 2026-03")]
    assert end.lines("error") == []
    assert [text for _, text in end.progress] == ["1 of 3", "2 of 3", "3 of 3"]
    assert (end.state, end.checkpoint, end.retry_after, end.final) == (None, None, None, False)


def test_an_async_handler_in_a_plain_test() -> None:
    end = run_handler(make_executor(), "send-invoices", parameters={"month": "2026-04"}).result()
    assert end.log == [("info", "sending the invoices of 2026-04")]


@pytest.mark.parametrize("by_name", [False, True])
async def test_a_plain_handler_runs_in_a_thread(by_name: bool) -> None:
    threads: list[str] = []

    def export() -> None:
        threads.append(threading.current_thread().name)
        logging.getLogger("shop").warning("row %d is empty", 7)
        current_run().log.debug("done")

    executor = make_executor()
    executor.handler("export")(export)
    end = await (run_handler(executor, "export") if by_name else run_handler(export))
    assert end.log == [("warning", "row 7 is empty"), ("debug", "done")]
    assert threads[0] != threading.main_thread().name


async def test_the_executor_stays_open_for_more_handlers() -> None:
    executor = make_executor()
    await run_handler(executor, "send-invoices", parameters={"month": "2026-03"})
    executor.handler("another")(send_invoices)


async def test_what_the_run_knows_is_given() -> None:
    at = datetime(2026, 3, 29, 2, 30, tzinfo=UTC)

    async def tell(run: Run) -> list[object]:
        return [
            run.try_number,
            run.max_tries,
            run.shard_index,
            run.shard_total,
            run.origin,
            run.scheduled_at == at,
            run.due_at == at + timedelta(hours=5),
            (run.interval_start, run.interval_end) == (at - timedelta(days=1), at),
            run.checkpoint,
        ]

    end = await run_handler(
        tell,
        try_number=2,
        max_tries=4,
        shard_index=1,
        shard_total=8,
        scheduled_at=at,
        due_at=at + timedelta(hours=5),
        interval_start=at - timedelta(days=1),
        origin="schedule",
        checkpoint=[1, 2],
    )
    assert end.result == [2, 4, 1, 8, "schedule", True, True, True, [1, 2]]


@pytest.mark.parametrize(
    ("error", "outcome", "retry_after", "final"),
    [
        (Retry("later", after=30), "failed", 30.0, False),
        (Fail("never"), "failed", None, True),
        (Skip("nothing to do"), "skipped", None, False),
    ],
)
async def test_what_is_raised_means_what_it_means(
    error: Exception, outcome: str, retry_after: float | None, final: bool
) -> None:
    async def work() -> None:
        raise error

    end = await run_handler(work)
    assert (end.outcome, end.message) == (outcome, str(error))
    assert (end.retry_after, end.final) == (retry_after, final)


async def test_any_other_error_fails_with_its_traceback_in_the_log() -> None:
    async def work() -> None:
        raise KeyError("month")

    end = await run_handler(work)
    assert (end.outcome, end.message) == ("failed", "KeyError: 'month'")
    assert end.lines("error")[0] == "Traceback (most recent call last):"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "the handler's return value cannot be written as JSON"),
        ("x" * 70_000, "the limit is 65,536"),
    ],
)
async def test_a_result_has_its_limits(value: object, message: str) -> None:
    async def work() -> object:
        return value

    end = await run_handler(work)
    assert end.outcome == "failed"
    assert message in end.message


async def test_state_and_checkpoint_are_what_the_next_one_gets() -> None:
    async def work(run: Run) -> None:
        run.state["seen"] = run.state.get("seen", 0) + 1
        run.save_checkpoint({"page": 4})
        if run.parameters["fail"]:
            raise OSError("no paper")

    good = await run_handler(work, state={"seen": 1}, parameters={"fail": False})
    assert (good.state, good.checkpoint) == ({"seen": 2}, None)
    bad = await run_handler(work, state={"seen": 1}, parameters={"fail": True})
    assert (bad.state, bad.checkpoint) == ({"seen": 1}, {"page": 4})


async def test_a_try_that_saves_nothing_leaves_what_the_one_before_had_saved() -> None:
    async def work(run: Run) -> None:
        raise OSError("no paper")

    assert (await run_handler(work, checkpoint=[1])).checkpoint == [1]


async def test_a_job_that_keeps_no_state_has_none() -> None:
    async def work(run: Run) -> None:
        run.state["seen"] = 1

    end = await run_handler(work)
    assert end.outcome == "failed"
    assert "keeps no state" in end.message


async def test_a_cancel_and_a_timeout_end_it() -> None:
    cleaned: list[bool] = []

    async def wait(run: Run) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            cleaned.append(run.cancelled)

    assert (await run_handler(wait, cancel_after=0)).outcome == "cancelled"
    assert (await run_handler(wait, timeout=0.01)).outcome == "timed_out"
    assert cleaned == [True, True]


def test_the_traceback_of_an_error_is_the_handlers_alone() -> None:
    async def work() -> None:
        raise LookupError("no such customer")

    told = "\n".join(run_handler(work).result().lines("error"))
    assert told.startswith("Traceback (most recent call last):\n")
    assert told.count("Traceback") == 1


def test_parameters_pass_through_json() -> None:
    def work(run: Run) -> object:
        return [type(run.parameters["at"]).__name__, run.parameters["pair"]]

    end = run_handler(work, parameters={"at": datetime.now(UTC), "pair": (1, 2)}).result()
    assert end.result == ["str", [1, 2]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"parameters": {"x": object()}}, "the parameters cannot be written as JSON"),
        ({"parameters": {"x": "y" * 70_000}}, "the limit is 65,536"),
        ({"state": {"x": object()}}, "the state cannot be written as JSON"),
        ({"checkpoint": object()}, "the checkpoint cannot be written as JSON"),
        ({"scheduled_at": datetime(2026, 3, 1)}, "naive"),  # noqa: DTZ001 (that is the mistake)
    ],
)
def test_what_no_admin_would_send_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_handler(send_invoices, **given)


def test_a_handler_that_is_not_there_is_named() -> None:
    with pytest.raises(HandlerError, match="did you mean 'send-invoices'"):
        run_handler(make_executor(), "send-invoice")
    with pytest.raises(HandlerError, match="which of its handlers"):
        run_handler(make_executor())


def test_the_signature_is_checked_as_on_a_node() -> None:
    called: list[str] = []

    def report(month: str, copies: int = 1) -> int:
        called.append(month)
        return copies

    end = run_handler(report, parameters={"month": 3}).result()
    assert (end.outcome, end.final) == ("failed", True)
    assert end.message == "parameters: month: expected str, got int"
    assert called == []
    assert run_handler(report, parameters={"month": "2026-03"}).result().result == 1


def test_a_handler_in_a_process_has_its_process_here_too() -> None:
    executor = make_executor()
    executor.handler("look", isolation="process")(process_handlers.look)
    end = run_handler(executor, "look", parameters={"month": "2026-03"}, state={}).result()
    assert end.result["pid"] != os.getpid()
    assert (end.result["month"], end.state) == ("2026-03", {"n": 1})
    assert end.lines() == ["from run.log", "from logging", "from print"]
    assert end.progress == [(0.5, "half")]


def test_the_public_names_of_the_test_kit() -> None:
    assert testing.__all__ == [
        "ConnectedNode",
        "FakeAdmin",
        "FakeRun",
        "HandlerEnd",
        "LoggedLine",
        "Pending",
        "ReportedProgress",
        "RunRefusedError",
        "SimulatedRun",
        "SimulatedSchedule",
        "StepEnd",
        "StepRun",
        "WorkflowEnd",
        "run_handler",
        "run_workflow",
        "simulated_schedule",
    ]
    assert all(hasattr(testing, name) for name in testing.__all__)
