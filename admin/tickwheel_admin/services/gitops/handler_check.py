"""What would break if a service's new version offered these handlers and no others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.executors.node import ANY_HANDLER
from tickwheel_admin.domain.input.node_manifest import MAX_SCHEMA_DEPTH
from tickwheel_admin.domain.input.parameter_schema import parameter_problems
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.gitops.kinds.jobs import declared_ids
from tickwheel_admin.services.lists.heavy_reads import Breath
from tickwheel_admin.services.runs.parameters import (
    check_against_schema,
    check_step_against_schema,
)
from tickwheel_admin.services.workflows.checks import known_parameters
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.gitops.handler_uses import (
    QueuedRun,
    inline_jobs_on,
    queued_run_ids,
    queued_runs,
)
from tickwheel_admin.store.gitops.jobs import read_jobs, visible_job_ids
from tickwheel_admin.store.jobs.jobs import get_config
from tickwheel_shared.portable_json import is_within

RUNS_AT_ONCE = 500  # that are read
MAX_BREAKS = 1_000  # that are told

Handlers = Mapping[str, str | None]  # JSON Schema of each; None: it takes whatever it is given


class BrokenThing(StrEnum):
    """What would break."""

    JOB = "job"
    STEP = "step"  # a handler that is a step of a workflow
    RUN = "run"  # one that waits


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerBreak:
    """One thing that would break, and why."""

    what: BrokenThing
    job_id: int
    job_name: str  # of a step: that of its workflow, and its key
    run_id: int | None
    problem: Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerCheck:
    """What was looked at, and what would break."""

    jobs: int
    steps: int
    runs: int  # fewer than wait, where more breaks are found than are told
    breaks: list[HandlerBreak]


async def check_handlers(
    store: Store, actor: Actor, executor_id: int, handlers: Mapping[str, Any]
) -> HandlerCheck:
    """Compare handlers with the stored jobs of an executor, steps of workflows, and queued runs.

    Jobs that code declares come with the new version, and are left out.

    Args:
        handlers: JSON Schema of each as an object; None: it takes whatever it is given.
    """
    actor.require(Permission.VIEW, executor_id)
    for name, each in handlers.items():
        if not is_within(each, MAX_SCHEMA_DEPTH):
            raise InvalidInput.one(
                "handlers",
                "handler.schema_too_deep",
                "The schema of “%(handler)s” is nested too deeply.",
                handler=name[:100],
            )
    known = {name: None if each is None else json.dumps(each) for name, each in handlers.items()}
    stored = await store.read(_check_stored, executor_id, known)
    ids = await store.read(queued_run_ids, executor_id)
    waiting = _WaitingRuns(known)
    breaks = list(stored.breaks)
    for first in range(0, len(ids), RUNS_AT_ONCE):
        if len(breaks) >= MAX_BREAKS:
            break
        breaks += await store.read(waiting.check, ids[first : first + RUNS_AT_ONCE])
    return replace(stored, runs=waiting.count, breaks=breaks[:MAX_BREAKS])


def _check_stored(conn: sa.Connection, executor_id: int, handlers: Handlers) -> HandlerCheck:
    breath = Breath()
    found: list[HandlerBreak] = []
    ids = visible_job_ids(conn, [executor_id])
    by_code = declared_ids(conn, ids)
    jobs = [each for each in read_jobs(conn, ids) if each.id not in by_code]
    steps = inline_jobs_on(conn, executor_id)
    for what, some in ((BrokenThing.JOB, jobs), (BrokenThing.STEP, steps)):
        for job in some:
            breath.take()
            found += [
                HandlerBreak(
                    what=what, job_id=job.id, job_name=job.config.name, run_id=None, problem=each
                )
                for each in _problems(handlers, job.config, what)
            ]
    return HandlerCheck(jobs=len(jobs), steps=len(steps), runs=0, breaks=found)


class _WaitingRuns:
    """Checks runs that wait; of those with the parameters of their job, one for all."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._configs: dict[tuple[int, int], JobConfig] = {}
        self._known: dict[tuple[int, int], list[Problem]] = {}
        self.count = 0

    def check(self, conn: sa.Connection, ids: Sequence[int]) -> list[HandlerBreak]:
        """What is wrong with some of them."""
        breath = Breath()
        found: list[HandlerBreak] = []
        for run in queued_runs(conn, ids):
            breath.take()
            self.count += 1
            config = self._config(conn, run)
            found += [
                HandlerBreak(
                    what=BrokenThing.RUN,
                    job_id=run.job_id,
                    job_name=config.name,
                    run_id=run.id,
                    problem=each,
                )
                for each in self._problems(config, run)
            ]
        return found

    def _config(self, conn: sa.Connection, run: QueuedRun) -> JobConfig:
        key = run.job_id, run.revision
        if key not in self._configs:
            self._configs[key] = get_config(conn, *key)
        return self._configs[key]

    def _problems(self, config: JobConfig, run: QueuedRun) -> list[Problem]:
        if run.parameters is not None:
            return _of_run(self._handlers, config, run.parameters)
        key = run.job_id, run.revision
        if key not in self._known:
            self._known[key] = _of_run(self._handlers, config, config.parameters)
        return self._known[key]


def _problems(handlers: Handlers, config: JobConfig, what: BrokenThing) -> Iterator[Problem]:
    if config.workflow is not None:
        return  # its steps are looked at
    schema = _schema(handlers, config)
    if isinstance(schema, Problem):
        yield schema
        return
    if schema is None:
        return
    try:
        if what is BrokenThing.STEP:
            check_step_against_schema(schema, config, known=known_parameters(config))
        else:
            check_against_schema(schema, config)
    except InvalidInput as error:
        yield from error.problems


def _of_run(handlers: Handlers, config: JobConfig, given: str) -> list[Problem]:
    if config.workflow is not None:
        return []
    schema = _schema(handlers, config)
    if isinstance(schema, Problem):
        return [schema]
    return [] if schema is None else parameter_problems(schema, given)


def _schema(handlers: Handlers, config: JobConfig) -> str | Problem | None:
    if config.handler in handlers:
        return handlers[config.handler]
    if ANY_HANDLER in handlers:
        return None
    refused = InvalidInput.one(
        "handler",
        "handler.gone",
        "The new version has no handler “%(handler)s”.",
        handler=config.handler,
    )
    return refused.problems[0]
