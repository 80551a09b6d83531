"""Ends of workflows that do not come by themselves: cancels, timeouts, waits, what is lost."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, admin_with_node
from tests.admin.kit.rows import add_job, ask, change, get_run, states
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import Player, add_workflow, step, steps_of, told
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.workflows.graph import ForEach, JobStep, SubWorkflow, Wait
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.runs.purge import purge_runs
from tickwheel_admin.store.runs.retention import delete_runs, remove_old_runs
from tickwheel_admin.store.workflows.steps import read_steps
from tickwheel_shared.protocol import Cancel, CancelReason


async def sweep(admin: Admin) -> None:
    while await admin.engine.sweeper.run_once():
        pass


def runs_service(admin: Admin) -> Runs:
    return Runs(admin.database, Ids(admin.database), admin.events)


@pytest.mark.every_database
async def test_a_cancel_stops_all_steps(database: Database) -> None:
    admin, node = await admin_with_node(database)
    inner = await add_workflow(database, step("x"), executor_id=node.executor_id)
    queued = await add_job(database, executor_id=node.executor_id, handler="nobody offers it")
    job_id = await add_workflow(
        database,
        step("live"),
        step("queued", body=JobStep(job_id=queued)),
        step("sub", body=SubWorkflow(job_id=inner)),
        step("each", for_each=ForEach(items="[1,2,3]", max_parallel=1)),
        step("later", body=Wait(duration_ms=3_600_000)),
        step("never", "live"),
        step("clean", "live:ended"),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    assert await player.claim() == ["each", "live", "x"]

    await runs_service(admin).cancel(ADMIN, run_id)
    await sweep(admin)
    asked = node.take(Cancel)
    assert {cancel.run for cancel in asked} == {r.run for r in player.requests.values()}
    assert {cancel.reason for cancel in asked} == {CancelReason.OPERATOR}
    assert await told(database, run_id) == (
        "live running, queued failed cancelled, sub running, each running,"
        " later skipped stopped, never skipped stopped, clean skipped stopped"
    )
    await player.end("live:cancelled", "x:cancelled", "each:cancelled")
    await sweep(admin)

    assert await states(database, run_id) == ["cancelled cancelled"]
    assert await player.claim() == []


async def test_a_cancel_that_comes_too_late_changes_nothing(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(database, step("only"), executor_id=node.executor_id)
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    await player.claim()
    await runs_service(admin).cancel(ADMIN, run_id)

    await player.end("only")

    assert await states(database, run_id) == ["succeeded"]


@pytest.mark.every_database
async def test_a_workflow_past_its_timeout_is_stopped(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database, step("a"), step("b", "a"), executor_id=node.executor_id, timeout_ms=60_000
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    await player.claim()
    begun = await get_run(database, run_id)
    assert begun.deadline_at == (begun.started_at or 0) + 60_000

    await change(database, tables.run, run_id, started_at=1, deadline_at=1)
    await sweep(admin)
    assert [cancel.run for cancel in node.take(Cancel)] == [player.requests["a"].run]
    await player.end("a:failed")  # it is not tried again, whatever it answers

    assert await states(database, run_id) == ["timed_out steps"]
    assert await told(database, run_id) == "a failed failed, b skipped stopped"


@pytest.mark.every_database
async def test_a_wait_is_over_at_its_instant(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("for", body=Wait(duration_ms=3_600_000)),
        step("until", body=Wait(until="${parameters.at}")),
        step("after", "for", "until"),
        step("bad", body=Wait(until="${parameters.no_instant}")),
        executor_id=node.executor_id,
        parameters='{"at":"2020-01-01T00:00:00Z","no_instant":7}',
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    assert await player.claim() == []
    assert await told(database, run_id) == (
        "for ready wait, until succeeded, after waiting, bad failed wait.no_instant"
    )
    run = await get_run(database, run_id)
    assert run.deadline_at == min(
        (await steps_of(database, run_id))[0].due_at or 0, (run.started_at or 0) + 600_000
    )

    await set_due(database, run_id, 1)
    await change(database, tables.run, run_id, deadline_at=1)
    await sweep(admin)

    assert await player.play() == [["after"]]


async def set_due(database: Database, run_id: int, at: int) -> None:
    table = tables.workflow_step
    wanted = sa.update(table).where(table.c.workflow_run_id == run_id, table.c.due_at.is_not(None))
    await database.run(lambda conn: conn.execute(wanted.values(due_at=at)).close())


@pytest.mark.every_database
async def test_ends_that_nobody_passed_on_are_found(database: Database) -> None:
    """Whoever deletes runs by hand leaves no workflow that waits for ever (G3)."""
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("gone"),
        step("ended"),
        step("each", for_each=ForEach(items="[1,2,3]")),
        step("after", "ended"),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    await player.claim()
    runs = {name: request.run for name, request in player.requests.items()}
    await delete_run(database, runs["gone"], runs["each[1]"])
    await change(database, tables.run, runs["ended"], state="succeeded")
    await change(database, tables.run, runs["each[2]"], state="succeeded")

    await change(database, tables.run, run_id, deadline_at=1)
    await sweep(admin)
    assert await told(database, run_id) == (
        "gone failed run_gone, ended succeeded, each running, after running"
    )
    each = (await steps_of(database, run_id))[2]
    assert (each.items_live, each.items_failed, each.items_succeeded) == (1, 1, 1)


async def delete_run(database: Database, *run_ids: int) -> None:
    gone = sa.delete(tables.run).where(tables.run.c.id.in_(run_ids))
    await database.run(lambda conn: conn.execute(gone).close())


async def test_a_run_waits_for_the_workflow_before_it(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("a"),
        step("b", "a"),
        executor_id=node.executor_id,
        blocking=BlockingPolicy(strategy=Blocking.SERIAL),
    )
    first, second = [await ask(database, job_id, after=n) for n in range(2)]

    player = Player(admin, node)
    assert await player.claim() == ["a"]
    assert await states(database, first, second) == ["running", "queued blocked"]
    await player.end("a")
    assert await player.play() == [["b"], ["a"], ["b"]]
    assert await states(database, first, second) == ["succeeded"] * 2


@pytest.mark.every_database
async def test_the_steps_go_with_their_workflow(database: Database) -> None:
    admin, node = await admin_with_node(database)
    each = step("each", for_each=ForEach(items="[1,2]"))
    job_id = await add_workflow(database, each, executor_id=node.executor_id)
    run_id = await ask(database, job_id)
    await Player(admin, node).play()

    await database.run(delete_runs, [run_id])

    assert await database.read(read_steps, [run_id]) == {}
    item = tables.workflow_item
    left = sa.select(item.c.run_id).where(item.c.workflow_run_id == run_id)
    assert await database.read(lambda conn: conn.execute(left).all()) == []


@pytest.mark.every_database
async def test_what_a_step_has_brought_stays_while_its_workflow_needs_it(
    database: Database,
) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("each", for_each=ForEach(items="[1,2]")),
        step("wait", body=Wait(duration_ms=3_600_000)),
        step("after", "each", "wait", parameters='{"x":"${steps.each.result}"}'),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    assert await player.play() == [["each", "each[1]"]]
    ids = sa.select(tables.run.c.id).where(tables.run.c.parent_run_id == run_id)
    items = list(await database.read(lambda conn: conn.execute(ids).scalars().all()))

    assert await database.run(remove_old_runs, older_than_ms=-60_000, limit=100) == 0
    assert await database.run(purge_runs, items) == 0
    await set_due(database, run_id, 1)
    await change(database, tables.run, run_id, deadline_at=1)
    await sweep(admin)
    assert await player.play() == [["after"]]
    assert await states(database, run_id) == ["succeeded"]

    assert await database.run(purge_runs, items) == 2
    assert await database.run(remove_old_runs, older_than_ms=-60_000, limit=100) == 2
