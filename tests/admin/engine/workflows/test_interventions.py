"""Steps that people skip, and pauses that they set before steps, while a workflow runs."""

from __future__ import annotations

import asyncio

import pytest

from tests.admin.kit.engine import Admin, admin_with_node
from tests.admin.kit.rows import ask, states
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import Player, add_workflow, step, steps_of, told
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.domain.workflows.graph import Approval, ForEach
from tickwheel_admin.services.runs.service import Runs
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.services.workflows.interventions import StepInterventions
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids


def steps_service(admin: Admin) -> StepInterventions:
    return StepInterventions(admin.database, Ids(admin.database), admin.events)


@pytest.mark.every_database
async def test_a_failed_step_is_skipped(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("a"),
        step("b", "a", parameters='{"x":"${steps.a.result}"}'),
        step("c", "b"),
        step("else", "a:failed"),
        step("both", "c", "long:failed"),
        step("long"),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player, service = Player(admin, node), steps_service(admin)
    await player.claim()
    await player.end("a:failed")
    assert await player.claim() == ["else"]
    assert await told(database, run_id) == (
        "a failed failed, b skipped needs, c skipped needs, else running, both skipped needs,"
        " long running"
    )

    with pytest.raises(InvalidInput):
        await service.skip(ADMIN, run_id, "a", reason=" ")
    with pytest.raises(Conflict, match="has not begun"):
        await service.skip(ADMIN, run_id, "long", reason="?")
    done = await asyncio.gather(  # two people at the same moment
        *(service.skip(ADMIN, run_id, "a", reason="booked by hand") for _ in range(2)),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in done) == ["Conflict", "NoneType"]

    assert await told(database, run_id) == (
        "a succeeded passed_by_hand, b running, c waiting, else running, both waiting, long running"
    )
    skipped = (await steps_of(database, run_id))[0]
    assert (skipped.decided_by, skipped.message) == (ADMIN.name, "booked by hand")
    assert await player.claim() == ["b"]
    assert bytes(player.requests["b"].parameters) == b'{"x":null}'
    await player.end("b", "else")
    await player.play()
    await player.end("long")
    assert await told(database, run_id) == (
        "a succeeded passed_by_hand, b succeeded, c succeeded, else succeeded,"
        " both skipped needs, long succeeded"
    )
    assert await states(database, run_id) == ["succeeded"]
    with pytest.raises(Conflict, match="already ended"):
        await service.skip(ADMIN, run_id, "a", reason="?")


async def test_a_step_that_waits_is_skipped(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("a"),
        step("list", "a", for_each=ForEach(items="[1,2]")),
        step("sum", "list", parameters='{"all":"${steps.list.result}"}'),
        step("ask", body=Approval(people=("eve",))),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player, service = Player(admin, node), steps_service(admin)
    with pytest.raises(Conflict, match="has not begun"):
        await service.skip(ADMIN, run_id, "list", reason="?")
    await player.claim()

    await service.skip(ADMIN, run_id, "list", reason="nothing new")
    developer = Actor(user_id=7, name="dev", grants={node.executor_id: Role.DEVELOPER})
    with pytest.raises(NotAllowed):  # to skip an approval is to answer it
        await service.skip(developer, run_id, "ask", reason="?")
    with pytest.raises(NotFound):
        await service.skip(Actor(user_id=8, name="eve", grants={}), run_id, "ask", reason="?")
    eve = Actor(user_id=8, name="eve", grants={node.executor_id: Role.VIEWER})
    await service.skip(eve, run_id, "ask", reason="is on holiday")
    with pytest.raises(NotAllowed):
        await service.skip(eve, run_id, "list", reason="?")

    assert await player.claim() == ["sum"]
    assert bytes(player.requests["sum"].parameters) == b'{"all":[]}'
    await player.end("a", "sum")
    assert await states(database, run_id) == ["succeeded"]


@pytest.mark.every_database
async def test_a_pause_is_set_and_lifted(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("a"),
        step("b", "a"),
        step("c", "a", pause_before=True),
        step("d", "a"),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    player, service = Player(admin, node), steps_service(admin)
    await player.claim()

    for key in ("b", "d"):
        await service.pause(ADMIN, run_id, key, paused=True)
    for key in ("c", "d"):  # that of the graph, and one of a person
        await service.pause(ADMIN, run_id, key, paused=False)
    with pytest.raises(Conflict, match="paused already"):
        await service.pause(ADMIN, run_id, "b", paused=True)
    with pytest.raises(Conflict, match="no pause"):
        await service.pause(ADMIN, run_id, "d", paused=False)
    with pytest.raises(Conflict, match="has begun"):
        await service.pause(ADMIN, run_id, "a", paused=True)
    await player.end("a")

    assert await player.claim() == ["c", "d"]
    await player.end("c", "d")
    assert (await told(database, run_id)).startswith("a succeeded, b ready breakpoint")
    answers = StepAnswers(admin.database, Ids(admin.database), admin.events)
    both = await asyncio.gather(
        service.pause(ADMIN, run_id, "b", paused=False),
        answers.answer(ADMIN, run_id, "b", approved=True),
        return_exceptions=True,
    )
    assert sorted(type(each).__name__ for each in both) == ["Conflict", "NoneType"]
    assert await player.play() == [["b"]]
    assert await states(database, run_id) == ["succeeded"]


async def test_a_workflow_that_is_to_end_is_left_alone(database: Database) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(database, step("a"), step("b", "a"), executor_id=node.executor_id)
    run_id = await ask(database, job_id)
    await Player(admin, node).claim()
    await Runs(admin.database, Ids(admin.database), admin.events).cancel(ADMIN, run_id)
    service = steps_service(admin)

    with pytest.raises(Conflict, match="about to end"):
        await service.skip(ADMIN, run_id, "b", reason="?")
    with pytest.raises(Conflict, match="about to end"):
        await service.pause(ADMIN, run_id, "b", paused=True)
