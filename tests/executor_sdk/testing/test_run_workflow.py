"""The test kit plays a whole workflow: what begins, what follows, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.executor_sdk.scripted_admin import TOKEN
from tickwheel_executor import (
    Executor,
    Fail,
    HandlerError,
    Retry,
    Run,
    Skip,
    SpawnError,
    Workflow,
)
from tickwheel_executor.testing import WorkflowEnd, run_handler, run_workflow

DAY = {"day": "monday"}


class Service:
    """An executor with a few handlers, and what they noticed."""

    def __init__(self) -> None:
        self.executor = Executor("warehouse", admins=["http://x"], token=TOKEN)
        self.live = self.most_live = 0
        self.tries: list[tuple[int, Any, datetime]] = []

        @self.executor.handler("extract")
        async def extract(day: str) -> dict[str, list[str]]:
            return {"files": [f"{day}-{n}" for n in range(5)]}

        @self.executor.handler("load")
        async def load(file: str) -> str:
            self.live += 1
            self.most_live = max(self.most_live, self.live)
            await asyncio.sleep(0)
            self.live -= 1
            if file.endswith("3"):
                raise ValueError(f"{file} is broken")
            return file.upper()

        @self.executor.handler("count")
        def count(files: list[str | None]) -> int:
            return len(list(filter(None, files)))

        @self.executor.handler("shaky")
        async def shaky(run: Run, tries: int) -> int:
            self.tries.append((run.try_number, run.checkpoint, run.scheduled_at))
            run.save_checkpoint(run.try_number)
            if run.try_number < tries:
                raise Retry("not yet", after=60) if tries == 2 else ValueError("not yet")
            return run.try_number

        @self.executor.handler("skip")
        async def skip() -> None:
            raise Skip("nothing to do")

        self.extract, self.load, self.count, self.shaky, self.skip = (
            extract,
            load,
            count,
            shaky,
            skip,
        )


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def wf(service: Service) -> Workflow:
    return service.executor.workflow("all", parameters={"day": "sunday", "mode": "full"})


def states(end: WorkflowEnd) -> str:
    return ", ".join(
        " ".join(filter(None, (key, step.state, step.reason))) for key, step in end.steps.items()
    )


async def test_values_go_from_step_to_step(service: Service, wf: Workflow) -> None:
    first = wf.step("extract", service.extract, parameters={"day": wf.parameters["day"]})
    load = wf.step(
        "load",
        service.load,
        needs=[first],
        for_each=first.result["files"],
        max_parallel=2,
        tolerate="20%",
        parameters={"file": wf.item},
    )
    wf.step("count", service.count, needs=[load], parameters={"files": load.result}, output=True)
    wf.step("tell", service.count, needs=[load.failed], parameters={"files": []})
    end = await run_workflow(wf, parameters=DAY)
    assert (end.outcome, end.result, service.most_live) == ("succeeded", 4, 2)
    assert end.steps["load"].result == ["MONDAY-0", "MONDAY-1", "MONDAY-2", None, "MONDAY-4"]
    assert states(end) == ("extract succeeded, load succeeded, count succeeded, tell skipped needs")
    broken = [each for each in end.steps["load"].runs if not each.end.succeeded]
    assert [(each.item_index, each.parameters) for each in broken] == [(3, {"file": "monday-3"})]
    assert list(end.began) == ["extract", "load", "count"]


async def test_more_failed_items_than_are_tolerated_begin_no_others(
    service: Service, wf: Workflow
) -> None:
    wf.step(
        "load",
        service.load,
        for_each=["3", "4", "5"],
        max_parallel=1,
        parameters={"file": wf.item},
    )
    wf.step("tell", service.count, needs=["load"], parameters={"files": "${steps.load.result}"})
    end = run_workflow(wf)
    assert states(await end) == "load failed items_failed, tell skipped needs"


@pytest.mark.parametrize(
    ("rules", "tries", "outcome", "passed"),
    [
        ({"retries": 2, "retry_delay_seconds": 5}, 3, "succeeded", 15),
        ({"retries": 2, "retry_delay_seconds": 5, "retry_backoff": "fixed"}, 3, "succeeded", 10),
        ({"retries": 1}, 3, "failed", 10),
        ({"retries": 3, "retry_on": ["timed_out"]}, 3, "failed", 0),
        ({"retries": 3, "retry_on": ["timed_out"]}, 2, "succeeded", 60),  # it asks for the try
        ({}, 1, "succeeded", 0),
    ],
)
async def test_tries_take_no_time(
    service: Service, wf: Workflow, rules: Any, tries: int, outcome: str, passed: float
) -> None:
    wf.step("shaky", service.shaky, parameters={"tries": tries}, **rules)
    end = await run_workflow(wf)
    assert (end.outcome, end.seconds) == (outcome, passed)
    made = len(end.steps["shaky"].runs)
    assert [(n, left) for n, left, _ in service.tries] == [
        (n, n - 1 or None) for n in range(1, made + 1)
    ]


AT = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("build", "given", "told", "passed"),
    [
        (lambda wf: wf.wait("x", hours=2), {}, "x succeeded", 7200),
        (lambda wf: wf.wait("x", until=AT), {}, "x succeeded", 0),
        (lambda wf: wf.wait("x", until=wf.parameters["mode"]), {}, "x failed wait.no_instant", 0),
        (
            lambda wf: wf.wait("x", until=wf.parameters["at"]),
            {"parameters": {"at": "2026-03-01T09:01:00+00:00"}},
            "x succeeded",
            60,
        ),
        (lambda wf: wf.approval("x"), {"answers": {"x": True}}, "x succeeded approved", 0),
        (lambda wf: wf.approval("x"), {"answers": {"x": False}}, "x failed declined", 0),
        (lambda wf: wf.approval("x", deadline_seconds=9), {}, "x failed declined", 9),
        (
            lambda wf: wf.approval("x", deadline_seconds=9, silence="approve"),
            {},
            "x succeeded approved",
            9,
        ),
        (lambda wf: wf.step("x", "skip"), {}, "x skipped by_handler", 0),
        (lambda wf: wf.step("x", "skip", pause_before=True), {}, "x skipped by_handler", 0),
        (
            lambda wf: wf.step("x", "skip", pause_before=True),
            {"answers": {"x": False}},
            "x failed declined",
            0,
        ),
        (lambda wf: wf.step("x", "skip", when="parameters.mode == 'dry'"), {}, "x skipped when", 0),
        (
            lambda wf: wf.step("x", "skip", when="parameters.none > 1"),
            {},
            "x failed value.missing",
            0,
        ),
        (
            lambda wf: wf.job("x", "j", executor="b", for_each=wf.parameters["mode"]),
            {"returns": {"x": 1}},
            "x failed for_each.no_list",
            0,
        ),
        (lambda wf: wf.job("x", "j"), {"returns": {"x": Fail("no")}}, "x failed failed", 0),
        (
            lambda wf: wf.script("x", "shell", "echo"),
            {"returns": {"x": lambda given: [given]}},
            "x succeeded",
            0,
        ),
    ],
)
async def test_steps_end_as_at_the_admin(
    wf: Workflow, build: Callable[[Workflow], Any], given: Any, told: str, passed: float
) -> None:
    build(wf)
    end = await run_workflow(wf, scheduled_at=AT, **given)
    assert (states(end), end.seconds) == (told, passed)
    assert end.succeeded == ("failed" not in told)


async def crawl(run: Run, pages: int) -> str:
    """Spreads its pages; the first try of a page may fail."""
    if run.item is None:
        if run.try_number == 1:
            run.spawn(["lost"])
            raise ValueError("what a failed run has spawned is forgotten")
        run.spawn({"page": n} for n in range(pages))
        return "root"
    if run.item["page"] == 1:
        run.spawn(["further"])
    return f"page {run.item['page']}"


async def test_a_step_spawns_items(service: Service, wf: Workflow) -> None:
    service.executor.handler("crawl")(crawl)
    crawled = wf.step(
        "crawl", crawl, parameters={"pages": 3}, retries=1, max_parallel=1, tolerate=1, output=True
    )
    wf.step("none", "crawl", needs=[crawled], parameters={"pages": 0}, retries=1)
    wf.step("each", "crawl", needs=[crawled], for_each=[1], tolerate="all", parameters={"pages": 1})
    end = await run_workflow(wf)
    assert end.result == ["page 0", None, "page 2"]
    assert end.steps["none"].result == []
    runs = end.steps["crawl"].runs
    assert [each.item_index for each in runs] == [None, None, 0, 1, 1, 2]
    assert runs[1].end.spawned == [{"page": 0}, {"page": 1}, {"page": 2}]
    assert "it may not spawn further" in runs[3].end.message
    assert "an item of a for_each" in end.steps["each"].runs[0].end.message
    outside = await run_handler(crawl, parameters={"pages": 1}, try_number=2)
    assert "only the run of a workflow's step may spawn" in outside.message


async def test_a_handler_in_a_process_spawns_as_well(service: Service) -> None:
    service.executor.handler("crawl", isolation="process")(crawl)
    end = await run_handler(
        service.executor,
        "crawl",
        parameters={"pages": 1},
        try_number=2,
        origin="step",
        may_spawn=True,
    )
    assert (end.spawned, end.result) == ([{"page": 0}], "root")


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([None], "item 1 is None"),
        ([1, object()], "item 2 cannot be written as JSON"),
        (range(10_001), "more than 10,000 items"),
        (["x" * 100_000] * 3, "the items are 300,012 bytes of JSON; the limit is 262,144"),
    ],
)
async def test_what_cannot_be_spawned_says_why(items: Any, told: str) -> None:
    def spread(run: Run) -> None:
        run.spawn([0])
        with pytest.raises(SpawnError, match=told):
            run.spawn(items)

    end = await run_handler(spread, origin="step", may_spawn=True)
    assert end.spawned == [0], end


async def test_workflows_of_the_program_are_played_within_each_other(
    service: Service, wf: Workflow
) -> None:
    inner = service.executor.workflow("inner", parameters={"x": 1, "y": 2})
    ask = inner.approval("ask")
    inner.job("y", "elsewhere", needs=[ask], parameters={"y": inner.parameters["y"]}, output=True)
    outer = wf.workflow("sub", inner, parameters={"y": 3})
    service.executor.job("nightly", handler="count", parameters={"files": ["a"]})
    wf.job("nightly", "nightly", needs=[outer])
    wf.job("tell", "elsewhere", needs=[outer.ended], parameters={"told": outer.result})
    returns = {"sub/y": lambda given: given, "tell": lambda given: given["told"]}
    end = await run_workflow(wf, answers={"sub/ask": True}, returns=returns)
    assert end.steps["tell"].result == {"y": 3}
    assert end.steps["nightly"].result == 1
    end = await run_workflow(wf, answers={"sub/ask": False}, returns=returns)
    assert states(end) == "sub failed failed, nightly skipped needs, tell failed value.missing"


async def test_what_a_test_forgot_is_told_before_anything_runs(
    service: Service, wf: Workflow
) -> None:
    wf.job("bill", "bill")
    wf.script("tidy", "shell", "rm")
    with pytest.raises(ValueError, match=r"step 'bill'.*step 'tidy'.*returns=\{'tidy': …\}"):
        await run_workflow(wf)
    with pytest.raises(ValueError, match="there is no step 'bil'"):
        await run_workflow(wf, returns={"bil": 1, "bill": 1, "tidy": 1})
    wf.approval("sign")
    with pytest.raises(ValueError, match="nobody answers 'sign'"):
        await run_workflow(wf, returns={"bill": 1, "tidy": 1})
    wf.step("load", "lode")
    with pytest.raises(HandlerError, match="no handler 'lode'"):
        await run_workflow(wf)
