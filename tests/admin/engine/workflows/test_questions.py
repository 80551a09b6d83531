"""Steps that wait for somebody's answer: people are told once, with a page, until it is over."""

from __future__ import annotations

import pytest

from tests.admin.kit.alarms import Alarms
from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import admin_with_node
from tests.admin.kit.rows import ask
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import Player, add_workflow, step
from tickwheel_admin.channels.text.compose import compose
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.domain.workflows.graph import Approval, Silence
from tickwheel_admin.engine.alarms.evaluator import LOOK_MS
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.store.alarms.signals import oldest_signals
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids

pytestmark = pytest.mark.turned_clock


@pytest.mark.every_database(nightly=True)
async def test_people_are_told_of_a_question_and_of_its_end(
    database: Database, clock: Clock
) -> None:
    admin, node = await admin_with_node(database)
    alarms, answers = Alarms(database), StepAnswers(database, Ids(database), admin.events)
    await alarms.rule(AlarmKind.APPROVAL_WAITS, await alarms.channel(), severity=Severity.WARNING)
    approval = Approval(
        people=("eve",),
        roles=("operator",),
        deadline_ms=3_600_000,
        silence=Silence.APPROVE,
        message="Are ${steps.count.result.rows} rows\nright?",
    )
    job_id = await add_workflow(
        database,
        step("count"),
        step("check", "count", body=approval, pause_before=True),
        executor_id=node.executor_id,
        name="close-month",
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    await player.claim()
    assert await alarms.tell() == []
    await player.end("count", count={"rows": 7})

    assert await alarms.tell() == [[("opened", "close-month")]]  # the breakpoint
    assert await alarms.tell() == []
    [opened] = await alarms.open()
    told = {"step": "check", "job": "close-month", "asked": "eve, operator"}
    assert opened.told.params == told
    await answers.answer(ADMIN, run_id, "check", approved=True)
    clock.advance(LOOK_MS // 1_000 + 60)
    await alarms.evaluate()
    clock.advance(60)  # what comes within a minute is told together
    await alarms.deliver()
    [asked, ended] = sorted(
        (entry for message in alarms.provider.taken for entry in message.entries),
        key=lambda entry: entry.occasion,
    )
    assert (asked.occasion, ended.occasion) == ("opened", "recovered")
    assert (ended.alarm_id, ended.closed_at is None) == (opened.id, False)
    assert asked.run_id == run_id
    page = f"https://jobs.example/runs/{run_id}/steps/check/answer"
    assert (asked.links["answer"], "retry" in asked.links) == (page, False)

    messages = [each for each in alarms.provider.taken if asked in each.entries]
    letter = compose(alarms.provider.channels[-1], messages[0])
    section = next(each for each in letter.sections if "rows" in each.sentence)
    assert section.sentence == (
        "“check” of “close-month” waits for an answer of eve, operator: Are 7 rows right?"
    )
    assert section.links[0].url == page
    assert "approved at" in " ".join(fact.text for fact in section.facts)

    alarms.provider.told()
    await answers.answer(ADMIN, run_id, "check", approved=False, message="no")
    clock.advance(LOOK_MS // 1_000 + 60)
    assert await alarms.tell() == [[("recovered", "close-month")]]
    assert await alarms.open() == []


async def test_what_was_answered_at_once_is_not_told(database: Database) -> None:
    admin, node = await admin_with_node(database)
    alarms, answers = Alarms(database), StepAnswers(database, Ids(database), admin.events)
    await alarms.rule(AlarmKind.APPROVAL_WAITS, await alarms.channel())
    body = Approval(message="${parameters.none}")
    job_id = await add_workflow(
        database,
        step("ask", body=Approval()),
        step("wrong", body=body),
        executor_id=node.executor_id,
    )
    run_id = await ask(database, job_id)
    await Player(admin, node).claim()
    signals = await database.read(lambda c: oldest_signals(c, limit=9))
    assert [each.kind for each in signals] == [AlarmKind.APPROVAL_WAITS]  # the other one has failed
    await answers.answer(ADMIN, run_id, "ask", approved=True)
    assert await alarms.tell() == []
    assert await alarms.open() == []
