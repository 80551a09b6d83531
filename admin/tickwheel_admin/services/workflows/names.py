"""Names of jobs and executors in a job that somebody wrote, as ids, and back.

Steps of a workflow and links to children name them alike:

job: extract                                  a job of the workflow's own executor
job: {executor: warehouse, name: extract}     one of another executor
executor: warehouse                           where a handler or a script runs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import sqlalchemy as sa

from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import is_clean
from tickwheel_admin.domain.jobs.children import MAX_CHILDREN
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.domain.workflows.graph import MAX_STEPS, JobStep, SubWorkflow, Workflow
from tickwheel_admin.services.lists.scope import visible_executors
from tickwheel_admin.store.executors.executors import executor_ids, executor_names
from tickwheel_admin.store.jobs.child_links import named_jobs
from tickwheel_admin.store.jobs.jobs import jobs_at

_JOB_KINDS = ("job", "workflow")
MAX_NAME_CHARS = 200  # of jobs and executors; more is told, and not looked up
MAX_ID = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNames:
    """Names of what is to be added in the same transaction, and is not looked up."""

    executors: Mapping[str, int] = field(default_factory=dict)
    jobs: Mapping[tuple[int, str], int] = field(default_factory=dict)  # by executor and name


def with_ids(
    conn: sa.Connection,
    actor: Actor,
    executor_id: int | None,
    raw: Mapping[str, Any],
    *,
    known: KnownNames | None = None,
) -> tuple[Mapping[str, Any], list[Problem]]:
    """A job's fields with ids for the names in its workflow and its children, and what names
    nothing.

    Args:
        executor_id: of the workflow; None while nobody said which.
        raw: as somebody sent it; what is not a name is left as it is.
        known: taken before what is stored.
    """
    look_up = _Names(conn, actor, executor_id, known or KnownNames())
    children, workflow = raw.get("children"), raw.get("workflow")
    steps = workflow.get("steps") if isinstance(workflow, Mapping) else None
    # Those beyond are refused for their number, and their names are not looked up.
    links = children[:MAX_CHILDREN] if isinstance(children, list) else []
    bodies = steps[:MAX_STEPS] if isinstance(steps, list) else []
    look_up.read(links, bodies)
    if isinstance(children, list):
        linked = [look_up.child(index, link) for index, link in enumerate(links)]
        raw = {**raw, "children": linked + children[MAX_CHILDREN:]}
    if not isinstance(workflow, Mapping) or not isinstance(steps, list):
        return raw, look_up.problems
    found = [look_up.step(index, step) for index, step in enumerate(bodies)]
    found += steps[MAX_STEPS:]
    return {**raw, "workflow": {**workflow, "steps": found}}, look_up.problems


def with_names(
    conn: sa.Connection, actor: Actor, executor_id: int, raw: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The way back, of fields that `job_to_raw` wrote; what the actor may not see keeps its id."""
    workflow = raw.get("workflow")
    if workflow is None:
        return raw
    steps = workflow["steps"]
    jobs = named_jobs(conn, {step[kind] for step in steps for kind in _JOB_KINDS if kind in step})
    places = {job.executor_id for job in jobs.values()} | {
        step["executor"] for step in steps if "executor" in step
    }
    names = {
        each: name
        for each, name in executor_names(conn, places).items()
        if actor.may(Permission.VIEW, each)
    }

    def named(step: Mapping[str, Any]) -> dict[str, Any]:
        shown = dict(step)
        if step.get("executor") in names:
            shown["executor"] = names[step["executor"]]
        for kind in _JOB_KINDS:
            job = jobs.get(step.get(kind, 0))
            if job is not None and job.executor_id in names:
                own = job.executor_id == executor_id
                other = {"executor": names[job.executor_id], "name": job.name}
                shown[kind] = job.name if own else other
        return shown

    return {**raw, "workflow": {**workflow, "steps": [named(step) for step in steps]}}


def names_of_step_jobs(conn: sa.Connection, actor: Actor, workflow: Workflow) -> dict[str, str]:
    """The names of the jobs and workflows that steps run, by step; only what the actor may see."""
    if not workflow.job_ids:
        return {}
    jobs = named_jobs(conn, set(workflow.job_ids))
    return {
        step.key: job.name
        for step in workflow.steps
        if isinstance(step.body, JobStep | SubWorkflow)
        and (job := jobs.get(step.body.job_id)) is not None
        and actor.may(Permission.VIEW, job.executor_id)
    }


class _Names:
    def __init__(
        self, conn: sa.Connection, actor: Actor, executor_id: int | None, known: KnownNames
    ) -> None:
        self.problems: list[Problem] = []
        self._conn = conn
        self._executor_id = executor_id
        self._seen = visible_executors(actor)
        self._executors: dict[str, int] = dict(known.executors)
        self._jobs: dict[tuple[int, str], int] = dict(known.jobs)

    def read(self, links: Sequence[Any], steps: Sequence[Any]) -> None:
        """Look up all names at once, executors first; what is no name is left for the checks."""
        named = [link.get("job") for link in links if isinstance(link, Mapping)]
        for step in steps:
            if isinstance(step, Mapping):
                named += [step.get(kind) for kind in _JOB_KINDS]
        executors = [each.get("executor") for each in (*steps, *named) if isinstance(each, Mapping)]
        unread = {each for each in executors if _is_name(each)} - self._executors.keys()
        found = executor_ids(self._conn, unread) if unread else {}
        self._executors |= {name: id_ for name, id_ in found.items() if self._sees(id_)}
        places = {place for each in named if (place := self._place(each)) is not None}
        wanted = {each for each in places - self._jobs.keys() if self._can_stand(each)}
        self._jobs |= jobs_at(self._conn, wanted) if wanted else {}

    def _place(self, value: Any) -> tuple[int, str] | None:
        """Executor and name of a job that is named so; None: of none, or it is no name."""
        if isinstance(value, str):
            return None if self._executor_id is None else (self._executor_id, value)
        if not isinstance(value, Mapping):
            return None
        place = value.get("executor")
        if isinstance(place, str):
            place = self._executors.get(place)
        return (place, str(value.get("name"))) if isinstance(place, int) else None

    def _can_stand(self, place: tuple[int, str]) -> bool:
        """Whether there could be such a job, so that it is worth a look."""
        return 0 < place[0] <= MAX_ID and _is_name(place[1]) and self._sees(place[0])

    def _sees(self, executor_id: int) -> bool:
        return self._seen is None or executor_id in self._seen

    def child(self, index: int, link: Any) -> Any:
        """A link to a child with the id of the job that it names."""
        job = link.get("job") if isinstance(link, Mapping) else None
        field = f"children[{index}].job"
        if isinstance(job, str) and self._executor_id is not None:
            return {**link, "job": self._job(field, self._executor_id, job) or 1}
        if isinstance(job, Mapping):
            return {**link, "job": self._of_executor(field, job) or 1}
        return link

    def step(self, index: int, step: Any) -> Any:
        if not isinstance(step, Mapping):
            return step
        place, found = f"workflow.steps[{index}]", dict(step)
        if isinstance(executor := step.get("executor"), str):
            found["executor"] = self._executor(f"{place}.executor", executor) or 1
        for kind in _JOB_KINDS:
            field, value = f"{place}.{kind}", step.get(kind)
            if isinstance(value, str) and self._executor_id is not None:
                found[kind] = self._job(field, self._executor_id, value) or 1
            elif isinstance(value, Mapping):
                found[kind] = self._of_executor(field, value) or 1
        return found

    def _of_executor(self, field: str, value: Mapping[str, Any]) -> int | None:
        executor, name = value.get("executor"), value.get("name")
        if set(value) != {"executor", "name"} or not isinstance(executor, str | int):
            self.refuse(
                field,
                "workflow.job",
                "Name a job by its “executor” and its “name”, or one of this executor by its name"
                " alone, or by its id.",
            )
            return None
        place = executor
        if isinstance(place, str):
            known = self._executor(f"{field}.executor", place)
            if known is None:
                return None
            place = known
        return self._job(field, place, str(name))

    def _executor(self, field: str, name: str) -> int | None:
        if name not in self._executors:
            self.refuse(
                field,
                "workflow.unknown_executor_name",
                "There is no executor “%(name)s”, or you may not see it.",
                name=name[:200],
            )
        return self._executors.get(name)

    def _job(self, field: str, executor_id: int, name: str) -> int | None:
        found = self._jobs.get((executor_id, name))
        if found is None:
            self.refuse(
                field,
                "workflow.unknown_job_name",
                "The executor has no job “%(name)s”, or you may not see it.",
                name=name[:200],
            )
        return found

    def refuse(self, field: str, code: str, template: str, /, **params: Any) -> None:
        """Note a broken rule of a field."""
        self.problems.append(Problem(field=field, code=code, template=template, params=params))


def _is_name(value: Any) -> TypeGuard[str]:
    """Whether something stored could be called so."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARS and is_clean(value)
