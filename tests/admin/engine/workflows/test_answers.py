"""Steps that wait for people: approvals, and breakpoints before any step."""

from __future__ import annotations

import pytest

from tests.admin.kit.engine import Admin, admin_with_node
from tests.admin.kit.rows import ask, change, states
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import Player, add_workflow, step, steps_of, told
from tickwheel_admin.domain.errors import Conflict, NotAllowed, NotFound
from tickwheel_admin.domain.users.user import Actor, Role
from tickwheel_admin.domain.workflows.graph import Approval, Silence
from tickwheel_admin.services.workflows import answers as services
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids


def answers_of(admin: Admin) -> StepAnswers:
    return StepAnswers(admin.database, Ids(admin.database), admin.events)


def _must_not_lock(*args: object, **named: object) -> None:
    raise AssertionError("a run was locked for somebody who may not answer")


@pytest.mark.every_database
async def test_a_step_waits_for_an_answer(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, node = await admin_with_node(database)
    job_id = await add_workflow(
        database,
        step("ask", body=Approval(people=("eve",), roles=("operator",))),
        step("pay", "ask", pause_before=True),
        step("tell", "ask:failed"),
        executor_id=node.executor_id,
    )
    yes, no = [await ask(database, job_id, after=n) for n in range(2)]
    player, answers = Player(admin, node), answers_of(admin)
    assert await player.claim() == []
    assert await told(database, yes) == "ask ready approval, pay waiting, tell waiting"

    developer = Actor(user_id=7, name="dev", grants={node.executor_id: Role.DEVELOPER})
    with monkeypatch.context() as patched:
        patched.setattr(services, "lock_books", _must_not_lock)
        with pytest.raises(NotAllowed):  # its role is not among those that are asked
            await answers.answer(developer, yes, "ask", approved=True)
        with pytest.raises(NotFound):
            await answers.answer(Actor(user_id=8, name="eve", grants={}), yes, "ask", approved=True)
    eve = Actor(user_id=8, name="eve", grants={node.executor_id: Role.VIEWER})
    await answers.answer(eve, yes, "ask", approved=True, message="fine")
    await answers.answer(ADMIN, no, "ask", approved=False)
    with pytest.raises(Conflict, match="does not wait"):
        await answers.answer(ADMIN, no, "ask", approved=True)

    assert await told(database, yes) == (
        "ask succeeded approved, pay ready breakpoint, tell skipped needs"
    )
    asked = (await steps_of(database, yes))[0]
    assert (asked.decided_by, asked.message) == ("eve", "fine")
    assert await player.play() == [["tell"]]
    with pytest.raises(NotAllowed):  # a breakpoint is for whoever may operate the workflow
        await answers.answer(eve, yes, "pay", approved=True)
    await answers.answer(developer, yes, "pay", approved=True)
    assert await player.play() == [["pay"]]
    assert await states(database, yes, no) == ["succeeded"] * 2
    with pytest.raises(Conflict, match="ended"):
        await answers.answer(ADMIN, yes, "pay", approved=True)


@pytest.mark.parametrize(
    ("silence", "expected"),
    [(Silence.DECLINE, "ask failed declined"), (Silence.APPROVE, "ask succeeded approved")],
)
async def test_silence_means_what_the_step_says(
    database: Database, silence: Silence, expected: str
) -> None:
    admin, node = await admin_with_node(database)
    approval = Approval(deadline_ms=60_000, silence=silence)
    job_id = await add_workflow(database, step("ask", body=approval), executor_id=node.executor_id)
    run_id = await ask(database, job_id)
    await Player(admin, node).claim()
    [status] = await steps_of(database, run_id)
    assert status.due_at is not None

    # Somebody had let it go on before it asked.
    due = {"due_at": 1, "decided_by": "olga"}
    await database.run(lambda conn: conn.execute(tables.workflow_step.update().values(due)).close())
    await change(database, tables.run, run_id, deadline_at=1)
    while await admin.engine.sweeper.run_once():
        pass

    assert await told(database, run_id) == expected
    [status] = await steps_of(database, run_id)
    assert status.decided_by is None
