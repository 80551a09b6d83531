"""The workflows of the documents and the demo's, saved and played; those of
docs/workflow-examples.md with the handlers that stand there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.engine import Admin, FakeSession, admin_with_node
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import ask, get_run
from tests.admin.kit.services import ADMIN
from tests.admin.kit.workflows import Player, told
from tickwheel_admin.cli.demo_jobs import WORKFLOW
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.jobs.yaml import from_yaml
from tickwheel_admin.services.runs.service import Runs, StepsAgain, choice_of
from tickwheel_admin.services.workflows.answers import StepAnswers
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.executors import add_executor
from tickwheel_executor import Executor
from tickwheel_executor.testing import run_handler
from tickwheel_shared.protocol import Outcome, RunRequest

DOCS = Path(__file__).parents[4] / "docs"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def chapters() -> dict[str, str]:
    """The examples by their headings."""
    text = (DOCS / "workflow-examples.md").read_text()
    return dict(each.split("\n", 1) for each in text.split("\n## ")[1:])


async def site(database: Database, handlers: str = "hello") -> tuple[Admin, FakeSession, Jobs]:
    """An admin, a node of an executor that there is, and what saves jobs."""
    admin, node = await admin_with_node(database, handlers=handlers)
    await database.run(
        lambda conn: add_executor(
            conn,
            executor_id=node.executor_id,
            name=f"examples {node.executor_id}",
            description="",
            token_hash=f"{node.executor_id}",
            now=0,
        )
    )
    return admin, node, Jobs(database, Ids(database), Events())


async def start(database: Database, raw: dict[str, Any], **parameters: Any) -> tuple[Player, int]:
    """A run of the same with the one handler that the node offers, and without triggers."""
    admin, node, jobs = await site(database)
    steps = [
        step | {"handler": "hello"} if "handler" in step else step
        for step in raw["workflow"]["steps"]
    ]
    workflow = raw["workflow"] | {"steps": steps}
    given = raw | {"workflow": workflow, "triggers": [], "parameters": parameters}
    job_id = await jobs.create(ADMIN, node.executor_id, given)
    return Player(admin, node), await ask(database, job_id)


async def test_a_workflow_with_items_and_its_failure(database: Database) -> None:
    [example] = blocks((DOCS / "workflows.md").read_text(), "yaml")
    player, run_id = await start(database, from_yaml(example), day="2026-11-01")
    files = [f"{n}.csv" for n in range(3)]
    assert await player.claim() == ["extract"]
    await player.end("extract", extract={"files": files})
    rounds = await player.play(convert={"rows": 2}, report={"rows": 6})
    assert rounds == [["convert", "convert[1]", "convert[2]"], ["report"]]
    assert (await get_run(database, run_id)).result == '{"rows":6}'
    assert await told(database, run_id) == (
        "extract succeeded, convert succeeded, report succeeded, tell skipped needs"
    )


async def test_the_workflow_of_the_demo(database: Database) -> None:
    player, run_id = await start(database, dict(WORKFLOW))
    rounds = await player.play(stock={"articles": 1_000}, digest={"mails": 1})
    assert rounds[0] == ["customers", "customers[1]", "stock"]
    assert rounds[-1] == ["digest"]
    assert (await get_run(database, run_id)).state is RunState.SUCCEEDED


# --- the six of docs/workflow-examples.md ---------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Story:
    """What is there before, what happens, and how it ends."""

    files: Mapping[str, str] = field(default_factory=dict)  # in the folder that is /data
    late: Mapping[str, str] = field(default_factory=dict)  # when all that can run has run
    approved: str | None = None  # the step that somebody approves then
    retried_from: str | None = None  # the step from which the failed run is retried then
    then: list[str] | None = None  # the handlers that run after all this
    told: str
    result: object


STORIES = {
    "Files of a folder": Story(
        files={
            "orders/a.csv": "id,cents\n1,250\n2,990\n",
            "orders/b.csv": "id,cents\n3,100\n",
            **{f"orders/c{n}.csv": "id,cents\n" for n in range(7)},
            "orders/d.csv": "id,cents\n4,broken\n",
        },
        told="list succeeded, load succeeded, total succeeded, tell skipped needs",
        result={"files": 9, "rows": 3},
    ),
    "The end of a month": Story(
        approved="check",
        told="revenue succeeded, costs succeeded, check succeeded approved, close succeeded,"
        " reopen skipped needs",
        result={"profit": 3_400},
    ),
    "Training a model": Story(
        files={"points.json": "[[1, 2], [2, 4], [3, null], [3, 6]]"},
        late={"holdout.json": "[[5, 10]]"},
        retried_from="choose",
        then=["choose-model", "publish-model"],  # nothing is trained again
        told="prepare succeeded, train succeeded, choose succeeded, publish succeeded",
        result={"rate": 0.1, "slope": 2.0, "error": 0.0},
    ),
    "Parts of a whole": Story(told="count succeeded, add succeeded", result=90),
    "A workflow for each region": Story(
        told="region succeeded, report succeeded", result="3 customers of 2 regions"
    ),
    "Waiting for a file": Story(
        late={"statement.txt": "rent -900\nsalary 2500\n"},
        told="arrival succeeded, book succeeded, tell skipped needs",
        result=2,
    ),
}


def test_each_example_has_its_story() -> None:
    assert chapters().keys() == STORIES.keys()


@pytest.mark.parametrize("heading", STORIES)
async def test_each_example_runs_as_it_stands(
    database: Database, tmp_path: Path, heading: str
) -> None:
    story, text = STORIES[heading], chapters()[heading].replace("/data", str(tmp_path))
    [code] = blocks(text, "python")
    executor = Executor("warehouse", admins=["http://127.0.0.1:1"], token="t" * 40)
    exec(compile(code, heading, "exec"), {"__name__": heading, "executor": executor})
    names = re.findall(r'@executor\.handler\("([a-z-]+)"\)', code)
    admin, node, jobs = await site(database, " ".join(names))
    for example in blocks(text, "yaml"):
        job_id = await jobs.create(ADMIN, node.executor_id, from_yaml(example))
    write(tmp_path, story.files)

    run_id = await ask(database, job_id)
    await play(admin, node, executor)
    write(tmp_path, story.late)
    if story.approved is not None:
        answers = StepAnswers(admin.database, Ids(admin.database), admin.events)
        await answers.answer(ADMIN, run_id, story.approved, approved=True)
    if story.retried_from is not None:
        assert (await get_run(database, run_id)).state is RunState.FAILED
        choice = choice_of(again=StepsAgain.FROM, step=story.retried_from)
        runs = Runs(database, Ids(database), admin.events)
        run_id = await runs.retry(ADMIN, run_id, steps=choice)
    await time_passes(database, node.executor_id)
    then = await play(admin, node, executor)

    assert story.then in (None, then)
    assert await told(database, run_id) == story.told
    ended = await get_run(database, run_id)
    assert ended.state is RunState.SUCCEEDED
    found = json.loads(ended.result or "null")
    assert found == (pytest.approx(story.result) if heading == "Training a model" else story.result)


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


async def play(admin: Admin, node: FakeSession, executor: Executor) -> list[str]:
    """Run what is due with the handlers of the example, until nothing is; returns their names."""
    names: list[str] = []
    while requests := await admin.dispatch_all(node):
        await admin.say(node, *map(accepted, requests))
        await admin.say(node, *[await ended(executor, request) for request in requests])
        names += [request.handler for request in requests]
    return names


async def ended(executor: Executor, request: RunRequest) -> Any:
    end = await run_handler(
        executor, request.handler, parameters=json.loads(bytes(request.parameters))
    )
    return result(request, Outcome(end.outcome), value=end.result, message=end.message)


async def time_passes(database: Database, executor_id: int) -> None:
    """Tries that wait are due."""
    run = tables.run.c
    due = sa.update(tables.run).where(run.executor_id == executor_id, run.state == "queued")
    await database.run(lambda conn: conn.execute(due.values(due_at=1)).close())
