"""Whether a workflow may be saved: what only the database knows of its steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.jobs.child_graph import circle_through, longest_chain_through
from tickwheel_admin.domain.jobs.inline_steps import InlineStep, inline_steps
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.jobs.secret_references import secret_names
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows.graph import MAX_DEPTH, JobStep, SubWorkflow, Workflow
from tickwheel_admin.services.handlers.known import check_handler
from tickwheel_admin.services.handlers.scripts import check_script
from tickwheel_admin.services.runs.parameters import check_step_parameters
from tickwheel_admin.services.runs.secret_references import check_secret_references
from tickwheel_admin.services.workflows.hidden_jobs import kept_jobs
from tickwheel_admin.store.executors.executors import executor_names, living_executors
from tickwheel_admin.store.jobs.child_links import (
    LinkedJob,
    child_graph,
    named_jobs,
    workflow_graph,
)


def check_workflow(
    conn: sa.Connection,
    actor: Actor,
    config: JobConfig,
    *,
    job_id: int,
    executor_id: int,
    before: JobConfig | None,
    is_stored: bool = False,
) -> None:
    """Refuse steps that lead nowhere, or that this actor may not make; links must be locked.

    A step that stays wholly as it is may stay, whoever edits the rest.

    Args:
        job_id: of the workflow.
        before: what its job says until now; None: it is new.
        is_stored: its scripts are those of another revision, so their sources are there.

    Raises:
        NotAllowed: a new script, without the permission.
        InvalidInput: with every problem found, on "workflow.steps[0].…".
    """
    if config.workflow is None:
        return
    checks = _Checks(conn, actor, config, job_id=job_id, executor_id=executor_id, before=before)
    checks.jobs(config.workflow)
    checks.inline(is_stored=is_stored)
    if not checks.problems:
        checks.circles(config.workflow)
    if checks.problems:
        raise InvalidInput(checks.problems)


class _Checks:
    def __init__(
        self,
        conn: sa.Connection,
        actor: Actor,
        config: JobConfig,
        *,
        job_id: int,
        executor_id: int,
        before: JobConfig | None,
    ) -> None:
        self.problems: list[Problem] = []
        self._conn = conn
        self._actor = actor
        self._config = config
        self._job_id = job_id
        self._executor_id = executor_id
        self._before = before
        self._unchanged = _unchanged(config, before)

    def jobs(self, workflow: Workflow) -> None:
        """The jobs that steps run are there, and may be run."""
        known = named_jobs(self._conn, workflow.job_ids)
        graphs = workflow_graph(self._conn) if _has_sub_workflow(workflow) else {}
        for index, step in enumerate(workflow.steps):
            if not isinstance(step.body, JobStep | SubWorkflow):
                continue
            kind = "job" if isinstance(step.body, JobStep) else "workflow"
            field, job_id = f"workflow.steps[{index}].{kind}", step.body.job_id
            job = known.get(job_id)
            is_kept = step.key in self._unchanged
            may_see = job is not None and self._actor.may(Permission.VIEW, job.executor_id)
            if job is None or not (may_see or is_kept):
                self.refuse(
                    field,
                    "workflow.unknown_job",
                    "There is no job %(job)d, or you may not see it.",
                    job=job_id,
                )
            elif not (is_kept or self._actor.may(Permission.OPERATE, job.executor_id)):
                self.refuse(
                    field,
                    "workflow.not_allowed",
                    "Your role does not allow you to run “%(name)s”.",
                    name=job.name,
                )
            elif kind == "workflow" and job_id not in graphs and job_id != self._job_id:
                self.refuse(
                    field,
                    "workflow.no_workflow",
                    "“%(name)s” is no workflow; name it as the “job” of this step.",
                    name=job.name,
                )

    def inline(self, *, is_stored: bool) -> None:
        """Handlers, scripts, secrets and parameters of steps are right where they run."""
        steps = list(inline_steps(self._config, job_id=self._job_id, executor_id=self._executor_id))
        others = {each.executor_id for each in steps} - {self._executor_id}
        alive = living_executors(self._conn, others)
        kept = kept_jobs(self._conn, self._before)
        for each in steps:
            job = kept.get((each.key, each.executor_id))
            earlier = None if job is None else job.config
            if each.executor_id in others and not self._may_use(each, alive):
                continue
            self._check_inline(each, earlier, is_stored=is_stored)

    def _may_use(self, step: InlineStep, alive: Collection[int]) -> bool:
        """Whether the actor may let a step run on another executor than the workflow's."""
        field = f"workflow.steps[{step.index}].executor"
        is_kept = step.key in self._unchanged
        may_see = self._actor.may(Permission.VIEW, step.executor_id)
        if step.executor_id not in alive or not (may_see or is_kept):
            self.refuse(
                field,
                "workflow.unknown_executor",
                "There is no executor %(executor)d, or you may not see it.",
                executor=step.executor_id,
            )
            return False
        if is_kept or self._actor.may(Permission.DEVELOP, step.executor_id):
            return True
        name = executor_names(self._conn, [step.executor_id])[step.executor_id]
        self.refuse(
            field,
            "workflow.not_allowed",
            "Your role does not allow you to add jobs to “%(name)s”, which this step does.",
            name=name,
        )
        return False

    def _check_inline(
        self, step: InlineStep, earlier: JobConfig | None, *, is_stored: bool
    ) -> None:
        config, executor_id = step.config, step.executor_id
        if earlier is None or earlier.handler != config.handler:
            self._ask(step, check_handler, executor_id, config.handler)
        self._ask(
            step,
            check_script,
            self._actor,
            executor_id,
            config,
            before=earlier,
            is_stored=is_stored,
        )
        self._ask(step, check_step_parameters, executor_id, config, known=known_parameters(config))
        kept = frozenset() if earlier is None else secret_names(earlier)
        self._ask(step, check_secret_references, executor_id, config, kept=kept)

    def circles(self, workflow: Workflow) -> None:
        """Neither steps nor children lead back here, and workflows do not lie too deep."""
        steps, children = workflow_graph(self._conn), child_graph(self._conn)
        steps[self._job_id] = workflow.job_ids
        children[self._job_id] = ()  # a circle through these is told with the children
        both = {
            job_id: (*steps.get(job_id, ()), *children.get(job_id, ()))
            for job_id in steps.keys() | children.keys()
        }
        if circle := circle_through(both, self._job_id):
            self.refuse(
                _field_of(workflow, circle[1]),
                "workflow.circle_of_jobs",
                "These jobs would run each other in a circle: %(path)s. Take one of the steps or"
                " children out.",
                path=self._names(circle),
            )
            return
        nested = {
            job_id: tuple(other for other in others if other in steps)
            for job_id, others in steps.items()
        }
        chain = longest_chain_through(nested, self._job_id, limit=MAX_DEPTH + 1)
        if len(chain) > MAX_DEPTH:
            self.refuse(
                "workflow.steps",
                "workflow.too_deep",
                "At most %(limit)d workflows may lie within each other; this would be %(path)s.",
                limit=MAX_DEPTH,
                path=self._names(chain),
            )

    def _names(self, way: list[int]) -> str:
        """The jobs in words; of those that the actor may not see, the ids alone."""
        own = LinkedJob(name=self._config.name, executor_id=self._executor_id)
        known: Mapping[int, LinkedJob] = named_jobs(self._conn, way) | {self._job_id: own}
        return " → ".join(
            job.name
            if (job := known.get(job_id)) and self._actor.may(Permission.VIEW, job.executor_id)
            else f"#{job_id}"
            for job_id in way
        )

    def _ask(self, step: InlineStep, check: Callable[..., None], *args: Any, **named: Any) -> None:
        try:
            check(self._conn, *args, **named)
        except InvalidInput as error:
            place = f"workflow.steps[{step.index}]"
            for problem in error.problems:
                name = problem.field
                if name == "handler" and step.config.script is not None:
                    name = "script"  # what the step has in its place
                self.problems.append(replace(problem, field=f"{place}.{name}"))

    def refuse(self, field: str, code: str, template: str, /, **params: Any) -> None:
        """Note a broken rule of a field."""
        self.problems.append(Problem(field=field, code=code, template=template, params=params))


def _unchanged(config: JobConfig, before: JobConfig | None) -> frozenset[str]:
    """Steps that run what they ran, with the same values, after the same steps."""
    if config.workflow is None or before is None:
        return frozenset()
    return config.workflow.unchanged_since(before.workflow)


def _field_of(workflow: Workflow, job_id: int) -> str:
    for index, step in enumerate(workflow.steps):
        match step.body:
            case JobStep(job_id=found) if found == job_id:
                return f"workflow.steps[{index}].job"
            case SubWorkflow(job_id=found) if found == job_id:
                return f"workflow.steps[{index}].workflow"
    return "workflow.steps"


def _has_sub_workflow(workflow: Workflow) -> bool:
    return any(isinstance(step.body, SubWorkflow) for step in workflow.steps)


def known_parameters(config: JobConfig) -> str:
    """The parameters whose values are known before the step starts."""
    if "${" not in config.parameters:
        return config.parameters
    given = json.loads(config.parameters)
    return json.dumps({n: value for n, value in given.items() if "${" not in json.dumps(value)})
