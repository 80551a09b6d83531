"""What is too large, too deep or broken in one workflow costs that one alone."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import structlog

from tests.admin.engine.workflows.test_ends import sweep
from tests.admin.kit.engine import admin_with_node
from tests.admin.kit.messages import result
from tests.admin.kit.rows import ask, change, get_run, states
from tests.admin.kit.workflows import Player, add_workflow, step, steps_of, told
from tickwheel_admin.domain.planning.fires import LAST_PRIORITY
from tickwheel_admin.domain.workflows import book
from tickwheel_admin.domain.workflows.book import WorkflowBook
from tickwheel_admin.domain.workflows.graph import ForEach
from tickwheel_admin.engine.sweeper import workflows as sweeping
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.runs.workflows import step_inputs
from tickwheel_admin.store.runs.workflows.step_starts import StepStarts


async def test_values_nested_too_deeply_fail_the_step_that_reads_them(database: Database) -> None:
    """Links refuse such a result; one in the ledger from before must stop nobody."""
    admin, node = await admin_with_node(database)
    given: list[dict[str, Any]] = [
        {"when": "steps.a.result == [1]"},
        {"parameters": '{"text":"so: ${steps.a.result}"}'},
        {"parameters": '{"value":"${steps.a.result}"}'},
        {"for_each": ForEach(items='"${steps.a.result}"'), "parameters": '{"i":"${item}"}'},
    ]
    readers = [step(f"r{n}", "a", **each) for n, each in enumerate(given)]
    job_id = await add_workflow(database, step("a"), *readers, executor_id=node.executor_id)
    run_id, other = await ask(database, job_id), await ask(database, job_id)
    requests = {
        str((await get_run(database, r.run)).parent_run_id): r
        for r in await admin.dispatch_all(node)
    }
    deep = msgspec.Raw(b"[" * 20_000 + b"]" * 20_000)

    await admin.say(
        node,
        result(requests[str(run_id)], value=None, result=deep),
        result(requests[str(other)], value=[1]),
    )

    deep_one = "failed value.too_deep"
    assert await told(database, run_id) == (
        f"a succeeded, r0 {deep_one}, r1 {deep_one}, r2 {deep_one}, r3 {deep_one}"
    )
    assert await states(database, run_id) == ["failed steps"]
    assert await told(database, other) == (
        "a succeeded, r0 running, r1 running, r2 running, r3 running"
    )


@pytest.mark.every_database
async def test_a_defect_with_one_workflow_does_not_stop_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, node = await admin_with_node(database)
    graph = (step("a"), step("b", "a"))
    job_id = await add_workflow(database, *graph, executor_id=node.executor_id)
    bad, good = await ask(database, job_id), await ask(database, job_id)
    begin = StepStarts.begin

    def begin_or_raise(self: StepStarts, book: WorkflowBook, index: int) -> None:
        begin(self, book, index)
        if book.run.id == bad and book.step(index).key == "b":
            raise KeyError("a defect of ours")

    monkeypatch.setattr(StepStarts, "begin", begin_or_raise)
    requests = await admin.dispatch_all(node)
    with structlog.testing.capture_logs() as logs:
        await admin.say(node, *map(result, requests))

    assert {each["run_id"] for each in logs if each["event"] == "workflow.not_advanced"} == {bad}
    assert await told(database, good) == "a succeeded, b running"
    assert await told(database, bad) == "a running, b waiting", "nothing is written of it"
    await sweep(admin)
    assert await states(database, bad) == ["failed defect"]
    assert await states(database, good) == ["running"]


async def test_what_a_defect_kept_back_is_made_up_for(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(database, step("a"), step("b", "a"), executor_id=node.executor_id)
    run_id = await ask(database, job_id)
    requests = await admin.dispatch_all(node)
    with monkeypatch.context() as patch:
        patch.setattr(WorkflowBook, "run_ended", lambda self, move: {}["a defect of ours"])
        await admin.say(node, *map(result, requests))
    assert await told(database, run_id) == "a running, b waiting"

    await sweep(admin)
    assert await told(database, run_id) == "a succeeded, b running"


async def test_a_workflow_that_cannot_be_swept_does_not_stop_the_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database, step("a"), executor_id=node.executor_id, timeout_ms=60_000
    )
    runs = [await ask(database, job_id) for _ in range(3)]
    player = Player(admin, node)
    await player.claim()
    for run_id in runs:
        await change(database, tables.run, run_id, started_at=1, deadline_at=1)
    stopping = sweeping.stopping_workflows

    def stopping_or_raise(conn: Any, ids: Any, *args: Any, **kwargs: Any) -> set[int]:
        assert runs[1] not in ids, "a defect of ours"
        return stopping(conn, ids, *args, **kwargs)

    monkeypatch.setattr(sweeping, "stopping_workflows", stopping_or_raise)
    with structlog.testing.capture_logs() as logs:
        await sweep(admin)

    assert [each["run_id"] for each in logs if each["event"] == "workflow.not_swept"] == [runs[1]]
    found = [await get_run(database, run_id) for run_id in runs]
    assert [run.cancel_reason for run in found] == ["timeout", None, "timeout"]
    assert (found[1].deadline_at or 0) > 1, "it is looked at again later"


async def test_all_steps_of_a_run_share_one_budget_of_live_items(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "MOST_LIVE_ITEMS", 4)
    admin, node = await admin_with_node(database)
    each = ForEach(items="[1,2,3]")
    job_id = await add_workflow(
        database, *(step(key, for_each=each) for key in "abc"), executor_id=node.executor_id
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)

    assert await player.claim() == ["a", "a[1]", "a[2]", "b"]
    await player.end("a", "a[1]")
    # What has the fewest live ones goes first.
    assert await player.claim() == ["c", "c[1]"]
    rounds = await _end_all(player)
    assert max(map(len, rounds)) <= 4
    assert await told(database, run_id) == "a succeeded, b succeeded, c succeeded"


async def _end_all(player: Player) -> list[list[str]]:
    rounds = []
    while player.requests:
        rounds.append(sorted(player.requests))
        await player.end(*player.requests)
        await player.claim()
    return rounds


async def test_a_step_over_a_list_has_failed_when_its_live_items_have_ended(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database)
    each = ForEach(items='"${steps.list.result}"', max_parallel=2)
    job_id = await add_workflow(
        database,
        step("list"),
        step("each", "list", for_each=each, parameters='{"of":"${steps.list.result}"}'),
        step("tell", "each:failed"),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    await player.claim()
    await player.end("list", list=[1, 2, 3, 4])
    await player.claim()
    listed = (await steps_of(database, run_id))[0].run_id
    deep = "[" * 20_000 + "]" * 20_000  # by SQL from outside
    await change(database, tables.run, listed or 0, result=deep)

    await player.end("each")
    assert await told(database, run_id) == (
        "list succeeded, each running value.too_deep, tell waiting"
    )
    assert await player.claim() == [], "no more items begin"
    await player.end("each[1]")
    assert await told(database, run_id) == (
        "list succeeded, each failed value.too_deep, tell running"
    )


@pytest.mark.every_database
async def test_results_of_items_are_read_where_they_are_named_and_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_inputs, "MOST_RESULT_CHARS", 50)
    read: list[int] = []  # indices of steps
    of_items = step_inputs.StepInputs._results_of_items

    def note(self: Any, book: WorkflowBook, index: int) -> str | None:
        read.append(index)
        return of_items(self, book, index)

    monkeypatch.setattr(step_inputs.StepInputs, "_results_of_items", note)
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("small", for_each=ForEach(items="[1,2]")),
        step("large", for_each=ForEach(items="[1,2]")),
        step("state", "large", when='steps.large.state == "succeeded"'),
        step("reads", "large", "state", parameters='{"all":"${steps.large.result}"}'),
        step(
            "items",
            "small",
            when="size(steps.small.result) == 2",
            for_each=ForEach(items="[1,2]", max_parallel=1),
        ),
        executor_id=node.executor_id,
        output="small",
    )
    run_id = await ask(database, job_id)

    player = Player(admin, node)
    by_round = []
    while names := await player.claim():
        read.clear()
        await player.end(*names, small="s" * 8, large="l" * 60)
        by_round.append(set(read))

    # For the condition, but not for each item; for the step that names it; for the output.
    assert by_round == [{0}, {1}, {0}]
    assert await told(database, run_id) == (
        "small succeeded, large succeeded, state succeeded, reads failed value.too_large,"
        " items succeeded"
    )
    assert (await get_run(database, run_id)).result == json.dumps(
        ["s" * 8] * 2, separators=(",", ":")
    )


@pytest.mark.every_database
async def test_a_late_result_counts_while_nothing_has_followed_from_the_loss(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database)
    each = ForEach(items="[1,2,3]", max_parallel=2)
    job_id = await add_workflow(
        database,
        step("alone"),
        step("needed"),
        step("items", for_each=each),
        step("passed", for_each=ForEach(items="[1]")),
        step("slow"),
        step("after", "needed"),
        step("both", "items:ended", "alone:ended", "slow"),
        step("then", "passed"),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    await player.claim()
    names = ("alone", "needed", "items", "items[1]", "passed")
    lost = {name: player.requests[name] for name in names}
    await player.end(*(f"{name}:cut_off" for name in names))
    assert await told(database, run_id) == (
        "alone failed lost, needed failed lost, items failed items_failed,"
        " passed failed items_failed, slow running,"
        " after skipped needs, both waiting, then skipped needs"
    )

    await admin.say(node, *(result(each, value="late") for each in lost.values()))

    assert await told(database, run_id) == (
        "alone succeeded, needed failed lost, items running,"
        " passed failed items_failed, slow running,"
        " after skipped needs, both waiting, then skipped needs"
    )
    [items] = [each for each in await steps_of(database, run_id) if each.step_index == 2]
    assert (items.items_succeeded, items.items_failed, items.items_live) == (2, 0, 1)
    ended = [await get_run(database, each.run) for each in lost.values()]
    assert {run.state.value for run in ended} == {"succeeded"}, "on the runs it counts anyway"
    assert await player.play() == [["items[2]"]]
    await player.end("slow")
    assert await player.play() == [["both"]]
    assert await states(database, run_id) == ["failed steps"]


async def test_steps_of_a_backfilled_workflow_know_its_interval_and_give_way(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database, slots=3)
    job_id = await add_workflow(
        database, *(step(key) for key in "abc"), executor_id=node.executor_id
    )
    await ask(
        database,
        job_id,
        nominal_at=7_200_000,
        interval_start=3_600_000,
        priority=LAST_PRIORITY,
    )

    sent = await admin.dispatch_all(node)

    assert len(sent) == 2, "the last free slot is for others"
    run = await get_run(database, sent[0].run)
    assert (run.priority, run.interval_start, run.works_for_at) == (
        LAST_PRIORITY,
        3_600_000,
        7_200_000,
    )
    assert sent[0].interval_start == 3_600_000
