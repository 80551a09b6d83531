"""What people see of a workflow that runs: its steps, and the items of one."""

from __future__ import annotations

import pytest

from tests.admin.kit.engine import admin_with_node
from tests.admin.kit.messages import result
from tests.admin.kit.rows import ask
from tests.admin.kit.services import ADMIN, actor_with
from tests.admin.kit.workflows import Player, add_workflow, step
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.domain.workflows.graph import ForEach, HandlerStep, Tolerance
from tickwheel_admin.services.workflows.steps import WorkflowRuns
from tickwheel_admin.store.database.database import Database
from tickwheel_shared.protocol import Outcome


async def test_steps_and_items_are_seen_as_they_stand(database: Database) -> None:
    admin, node = await admin_with_node(database)
    items = ForEach(items="[1,2,3]", tolerance=Tolerance(count=1))
    graph = (step("extract"), step("each", "extract", for_each=items), step("join", "each"))
    job_id = await add_workflow(database, *graph, executor_id=node.executor_id)
    run_id = await ask(database, job_id)
    runs, player = WorkflowRuns(database), Player(admin, node)

    before = await runs.get(ADMIN, run_id)
    assert [view.status.state for view in before.steps] == ["waiting"] * 3
    assert [view.waits_for for view in before.steps] == [(), ("extract",), ("each",)]

    await player.claim()
    await player.end("extract")
    assert await player.claim() == ["each", "each[1]", "each[2]"]
    await player.end("each:failed", "each[1]")
    view = await runs.get(ADMIN, run_id)
    extract, each, join = view.steps
    assert view.ended == 1
    assert extract.run is not None
    assert extract.run.state is RunState.SUCCEEDED
    assert (each.run, each.status.items, each.status.items_failed) == (None, 3, 1)
    assert [extract.is_critical, each.is_critical, join.is_critical] == [True, True, False]
    assert join.waits_for == ("each",)

    page = await runs.items(ADMIN, run_id, "each", limit=2)
    assert [(item.item_index, item.state) for item in page.items] == [
        (0, RunState.FAILED),
        (1, RunState.SUCCEEDED),
    ]
    rest = await runs.items(ADMIN, run_id, "each", limit=2, cursor=page.next)
    assert [item.item_index for item in rest.items] == [2]
    assert rest.next is None
    failed = await runs.items(ADMIN, run_id, "each", state=RunState.FAILED)
    assert [item.item_index for item in failed.items] == [0]

    await player.end("each[2]")
    await player.claim()
    [request] = player.requests.values()
    await admin.say(node, result(request, Outcome.FAILED, message="x" * 400))
    join = (await runs.get(ADMIN, run_id)).steps[2]
    assert join.message == "x" * 300, "why it failed is told beside the step"

    with pytest.raises(NotFound):
        await runs.items(ADMIN, run_id, "none")
    with pytest.raises(NotFound):
        await runs.get(actor_with(Role.VIEWER, node.executor_id + 1), run_id)
    assert extract.run is not None
    with pytest.raises(NotFound):
        await runs.get(ADMIN, extract.run.id)  # it has no steps


async def test_what_runs_elsewhere_is_not_told_to_strangers(database: Database) -> None:
    admin, node = await admin_with_node(database)
    away = HandlerStep(handler="hello", executor_id=node.executor_id + 1)
    graph = (
        step("here"),
        step("away", body=away),
        step("each", body=away, for_each=ForEach(items="[1]")),
        step("wrong", body=away, for_each=ForEach(items='"secret"')),
    )
    job_id = await add_workflow(database, *graph, executor_id=node.executor_id)
    run_id = await ask(database, job_id)
    await Player(admin, node).claim()

    runs, stranger = WorkflowRuns(database), actor_with(Role.VIEWER, node.executor_id)
    view = await runs.get(stranger, run_id)
    told = [
        (each.status.run_id is None, each.run is None, each.status.message) for each in view.steps
    ]
    assert told == [(False, False, None), *[(True, True, None)] * 3]
    assert [each.status.state for each in view.steps][1:] == ["running", "running", "failed"]
    page = await runs.items(stranger, run_id, "each")
    assert [(item.run_id, item.message, item.state) for item in page.items] == [
        (None, None, RunState.QUEUED)
    ]
    wrong = (await runs.get(ADMIN, run_id)).steps[3]
    assert "must be a list" in (wrong.status.message or "")
    assert (await runs.items(ADMIN, run_id, "each")).items[0].run_id is not None
