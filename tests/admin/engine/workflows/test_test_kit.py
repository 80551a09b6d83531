"""The SDK's test kit and the engine agree on how workflows of all shapes go."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.admin.kit.engine import admin_with_node
from tests.admin.kit.rows import ask, get_run
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import Player, told
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.job import parse_job
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import add_executor
from tickwheel_executor import Executor, Fail, Run, Skip, SpawnError, Step, Workflow
from tickwheel_executor.testing import run_workflow

OUTCOMES = ("succeeded", "succeeded", "succeeded", "failed", "skipped")
RESULT = {"files": ["a", "b", "c"], "rows": 3}


def any_workflow(random: Random, seed: int) -> Workflow:
    """A workflow of the handler `hello`, declared in code."""
    executor = Executor("shop", admins=["http://x"], token="t" * 40)

    @executor.handler("hello")
    async def hello(run: Run, item: int = 0, **given: object) -> object:
        key = run.job.rpartition("/")[2]
        match outcome_of(seed, key, item if run.item is None else run.item):
            case "failed":
                raise Fail("no")
            case "skipped":
                raise Skip("no")
        if run.item is None and spawns(seed, key):
            with suppress(SpawnError):  # an item of a list may not
                run.spawn(spawns(seed, key))
        return RESULT

    wf = executor.workflow("any", parameters={"mode": "full"})
    steps: list[Step] = []
    for number in range(random.randint(4, 14)):
        steps.append(any_step(random, wf, steps, f"s{number}", output=number == 3))
    return wf


def any_step(
    random: Random, wf: Workflow, before: Sequence[Step], key: str, *, output: bool
) -> Step:
    needed = random.sample(before, min(len(before), random.choice((0, 1, 1, 2))))
    needs = [
        random.choice((each, each, each, each.failed, each.ended, each.skipped)) for each in needed
    ]
    if random.random() < 0.1:
        return wf.wait(key, until="2020-01-01T00:00:00+00:00", needs=needs)
    fields: dict[str, Any] = {"needs": needs, "output": output}
    plain = [each for each in needs if isinstance(each, Step)]
    if random.random() < 0.15:
        fields["when"] = random.choice(("parameters.mode == 'full'", "parameters.none > 1"))
    if plain and random.random() < 0.3:
        fields["when"] = f"size({plain[0].result.path}) > 2 or {plain[0].state.path} == 'x'"
    if random.random() < 0.5:  # of its list, or of what it spawns
        fields |= {
            "max_parallel": random.choice((1, 2, 9)),
            "tolerate": random.choice((0, 1, "50%", "all")),
        }
    parameters: dict[str, Any] = {"item": 0}
    if random.random() < 0.4:
        listed = plain[0].result["files"] if plain else list(range(random.choice((0, 1, 4))))
        fields["for_each"] = listed
        parameters = {"item": wf.item_index}
    elif plain:
        parameters["rows"] = plain[0].result["rows"]
    return wf.step(key, "hello", parameters=parameters, **fields)


def reachable(random: Random, seed: int) -> Workflow:
    """One whose steps can all run: only that can be saved."""
    while True:
        wf = any_workflow(random, seed)
        with suppress(InvalidInput):
            parse_job({"name": "any", "workflow": wf.as_raw()})
            return wf


def outcome_of(seed: int, key: str, item: int) -> str:
    return Random(f"{seed} {key} {item}").choice(OUTCOMES)


def spawns(seed: int, key: str) -> list[int]:
    """The items that a step spawns, if it has no list."""
    random = Random(f"{seed} {key}")
    return list(range(1, 1 + random.choice((1, 3, 5)))) if random.random() < 0.3 else []


def _place(name: str) -> tuple[str, int]:
    """Step and item of a run, as `Player` names it; spawned items are told from 0 there."""
    if "+" in name:
        key, _, item = name.partition("+")
        return key, int(item) + 1
    key, _, item = name.rstrip("]").partition("[")
    return key, int(item or 0)


async def end(player: Player, name: str, seed: int) -> None:
    """End a run as the handler of the kit does."""
    key, item = _place(name)
    outcome = outcome_of(seed, key, item)
    may_spawn = player.requests[name].may_spawn is True
    if outcome == "succeeded" and may_spawn and (items := spawns(seed, key)):
        await player.spawn(name, *items, value=RESULT)
    else:
        await player.end(f"{name}:{outcome}", **{name.split("[")[0]: RESULT})


@pytest.mark.parametrize("seed", range(12))
async def test_both_decide_alike(database: Database, seed: int) -> None:
    wf = reachable(Random(seed), seed)
    admin, node = await admin_with_node(database)
    await database.run(
        lambda conn: add_executor(
            conn,
            executor_id=node.executor_id,
            name="shop",
            description="",
            token_hash="x",
            now=0,
        )
    )
    job_id = await Jobs(database, Ids(database), Events()).create(
        ADMIN, node.executor_id, wf.handlers.jobs.get("any") | {"workflow": wf.as_raw()}
    )
    run_id = await ask(database, job_id)
    player = Player(admin, node)
    while names := await player.claim():
        for name in names:
            await end(player, name, seed)
    run = await get_run(database, run_id)

    kit = await run_workflow(wf)
    states = {key: (step.state, step.reason) for key, step in kit.steps.items()}
    assert await told(database, run_id) == ", ".join(
        " ".join(filter(None, (key, _as_stored(*state), state[1]))) for key, state in states.items()
    )
    assert kit.outcome == run.state.value
    assert kit.result == json.loads(run.result or "null")


def _as_stored(state: str, reason: str | None) -> str:
    return "failed" if state in ("timed_out", "cancelled") else state
