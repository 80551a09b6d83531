"""Workflows as tests of the engine need them: graphs of handlers, with their hidden jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, change, get_run
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Run
from tickwheel_admin.domain.workflows.graph import (
    HANDLER,
    HandlerStep,
    InlineJob,
    Need,
    NeedOutcome,
    Step,
    Workflow,
)
from tickwheel_admin.domain.workflows.states import StepRunKind, StepStatus, kind_of
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.workflows.steps import read_steps, with_all_steps
from tickwheel_shared.protocol import Outcome, RunRequest

HIDDEN = -1  # `job.deleted_at` of jobs that belong to a workflow


def step(key: str, *needs: str | Need, **changes: Any) -> Step:
    """A step that runs the handler `hello`; needs are keys, `key:outcome`, or whole."""
    values = {"body": HandlerStep(handler="hello"), "needs": tuple(map(_need, needs))}
    return Step(key=key, **(values | changes))


def _need(need: str | Need) -> Need:
    if isinstance(need, Need):
        return need
    key, _, outcome = need.partition(":")
    return Need(step=key, outcome=NeedOutcome(outcome or "succeeded"))


async def add_workflow(
    database: Database,
    *steps: Step,
    executor_id: int,
    output: str | None = None,
    retry: RetryPolicy | None = None,
    **config: Any,
) -> int:
    """A workflow with the hidden jobs of its steps; returns its job's id."""
    inline = []
    for each in steps:
        if isinstance(each.body, HandlerStep):
            of_step = {"handler": each.body.handler} | ({"retry": retry} if retry else {})
            hidden = await add_job(
                database, executor_id=each.body.executor_id or executor_id, **of_step
            )
            await change(database, tables.job, hidden, deleted_at=HIDDEN)
            inline.append(InlineJob(step=each.key, job_id=hidden, revision=1))
    graph = Workflow(steps=steps, output=output, inline=tuple(inline))
    return await add_job(
        database, executor_id=executor_id, handler=HANDLER, workflow=graph, **config
    )


async def steps_of(database: Database, run_id: int) -> list[StepStatus]:
    """All steps of a workflow's run."""
    run = await get_run(database, run_id)
    rows = await database.read(read_steps, [run_id])
    return with_all_steps(run, await graph_of(database, run), rows.get(run_id, ()))


async def told(database: Database, run_id: int) -> str:
    """How each step of a run stands: "a succeeded, b skipped needs"."""
    graph = await graph_of(database, await get_run(database, run_id))
    rows = zip(graph.steps, await steps_of(database, run_id), strict=True)
    return ", ".join(
        " ".join(filter(None, (each.key, row.state.value, row.reason))) for each, row in rows
    )


async def graph_of(database: Database, run: Run) -> Workflow:
    """The graph that a run keeps."""
    from tickwheel_admin.store.jobs.configs import read_configs

    key = run.job_id, run.job_revision
    workflow = (await database.read(read_configs, [key]))[key].workflow
    assert workflow is not None
    return workflow


class Player:
    """A node that ends runs as it is told, and says what it was given."""

    def __init__(self, admin: Admin, session: FakeSession) -> None:
        self.admin = admin
        self.session = session
        self.requests: dict[str, RunRequest] = {}  # by step, or step[item]

    async def claim(self) -> list[str]:
        """Claim what is due; the steps that were sent, by name."""
        sent = {}
        for request in await self.admin.dispatch_all(self.session):
            run = await get_run(self.admin.database, request.run)
            sent[_name(run)] = request
        await self.admin.say(self.session, *map(accepted, sent.values()))
        self.requests |= sent
        return sorted(sent)

    async def end(self, *outcomes: str, **values: object) -> None:
        """End runs: `a`, `b:failed` or `a=value`, all in one batch."""
        said = []
        for each in outcomes:
            name, _, outcome = each.partition(":")
            request = self.requests.pop(name)
            said.append(
                result(
                    request, Outcome(outcome or "succeeded"), value=values.get(name.split("[")[0])
                )
            )
        await self.admin.say(self.session, *said)

    async def spawn(self, name: str, *items: object, value: object = None) -> None:
        """End the run of a step, which hands over items."""
        ended = result(self.requests.pop(name), Outcome.SUCCEEDED, value=value)
        spawned = msgspec.Raw(msgspec.json.encode(items))
        await self.admin.say(self.session, msgspec.structs.replace(ended, spawn=spawned))

    async def play(self, *, fail: Sequence[str] = (), **values: object) -> list[list[str]]:
        """Claim and end all, until nothing is due; which steps were claimed together."""
        rounds = []
        while names := await self.claim():
            rounds.append(names)
            await self.end(*(f"{n}:failed" if n in fail else n for n in names), **values)
        return rounds


def _name(run: Run) -> str:
    kind = kind_of(run.request_key)
    if kind is None:
        return f"run {run.id}"
    _, _, key, item = (run.request_key or "").split(":")
    if kind is StepRunKind.SPAWNED:
        return f"{key}+{item}"
    return key if item == "0" else f"{key}[{item}]"
