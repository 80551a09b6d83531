"""What the steps of many workflows cost the database: as many statements as those of a few."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import wraps
from types import ModuleType
from typing import Any

import pytest

from tests.admin.kit.engine import admin_with_node
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import ask, get_run
from tests.admin.kit.work_counter import Work, counted
from tests.admin.kit.workflows import add_workflow, step
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.engine.dispatcher import loop as dispatcher
from tickwheel_admin.engine.dispatcher.loop import Dispatcher
from tickwheel_admin.engine.recorder import loop as recorder
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.event_interest import NobodyInterested
from tickwheel_admin.store.database.ids import IdsAhead, TooFewIds

FEW, MANY = 2, 40
ROUNDS = 3  # of the graph below
# Those that begin and end at once are written by the same statements, whatever their number.
MOST_STATEMENTS = {"claim": 26, "record": 27}  # of one round


@pytest.fixture
async def database(store_url: str) -> AsyncIterator[Database]:
    """While nobody reads events of runs."""
    database = Database(store_url, interest=NobodyInterested())
    yield database
    await database.close()


async def test_steps_of_many_workflows_take_no_more_statements_than_those_of_a_few(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once is enough: how often it looks for workflows elsewhere is a matter of time.
    monkeypatch.setattr(Dispatcher, "interval_seconds", 3_600.0)
    admin, node = await admin_with_node(database, slots=MANY * 3)
    graph = (
        step("first"),
        *(step(f"middle-{n}", "first") for n in range(3)),
        step("last", *(f"middle-{n}" for n in range(3))),
    )
    job_id = await add_workflow(database, *graph, executor_id=node.executor_id)

    async def play(count: int) -> dict[str, Work]:
        run_ids = [await ask(database, job_id) for _ in range(count)]
        works = {"claim": Work(), "record": Work()}
        for _ in range(ROUNDS):
            async with counted(database) as claim:
                requests = await admin.dispatch_all(node)
            async with counted(database) as record:
                await admin.say(node, *map(accepted, requests))
                await admin.say(node, *map(result, requests))
            works["claim"] += claim
            works["record"] += record
        for run_id in run_ids:
            assert (await get_run(database, run_id)).state is RunState.SUCCEEDED
        return works

    await play(FEW)  # what is read once and kept
    few, many = await play(FEW), await play(MANY)
    for name, most in MOST_STATEMENTS.items():
        print(name, few[name], many[name])
        assert many[name].statements <= most * ROUNDS, name
        assert many[name].statements <= few[name].statements + 6, name
        assert many[name].sets <= many[name].statements, f"{name}: rows are sent one by one"


async def test_transactions_of_steps_are_not_begun_twice(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, node = await admin_with_node(database, slots=60)
    graph = (step("first"), *(step(f"middle-{n}", "first") for n in range(3)))
    job_id = await add_workflow(database, *graph, executor_id=node.executor_id)
    twice: list[str] = []
    _note_repeats(monkeypatch, dispatcher, "claim_queued_runs", twice)
    _note_repeats(monkeypatch, recorder, "record", twice)

    async def play(count: int) -> None:
        for _ in range(count):
            await ask(database, job_id)
        while requests := await admin.dispatch_all(node):
            await admin.say(node, *map(accepted, requests))  # by itself: nothing has ended
            await admin.say(node, *map(result, requests))

    await play(10)
    assert sorted(twice) == ["claim_queued_runs", "record"], "nothing was known of them"
    for count in (5, 3):
        await play(count)
    assert len(twice) == 2


def _note_repeats(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, twice: list[str]
) -> None:
    original = getattr(module, name)

    @wraps(original)
    def noted(*args: Any, **named: Any) -> Any:
        try:
            return original(*args, **named)
        except TooFewIds:
            twice.append(name)
            raise

    monkeypatch.setattr(module, name, noted)


def test_ids_that_nobody_uses_any_more_are_forgotten() -> None:
    ahead = IdsAhead()
    ahead.used(1_000)
    ahead.used(10)
    assert 500 < ahead.count < 1_000
    for _ in range(60):
        ahead.used(0)
    assert ahead.count == 0, "runs outside workflows pay nothing"
