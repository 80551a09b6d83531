"""Jobs that are being written: what a form or a YAML text says, and one made of the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.job_form.children import find_children, rows_of
from tickwheel_admin.console.job_form.form import JobForm, draft_of_form, form_as_sent, form_of_job
from tickwheel_admin.console.job_form.yaml_view import (
    YamlView,
    draft_of,
    form_kept,
    says_the_same,
    yaml_of_form,
)
from tickwheel_admin.console.lists.job_names import JobNames
from tickwheel_admin.domain.errors import InvalidInput, NotFound, Problem
from tickwheel_admin.domain.executors.executor import Protocol
from tickwheel_admin.domain.input.job import MAX_NAME_CHARS
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.executors.service import ExecutorDetail
from tickwheel_admin.services.jobs.yaml import to_yaml
from tickwheel_admin.services.services import Services

_FIRST_STEPS = """\
name: ""
workflow:
  steps:
    - key: extract
      handler: extract
      parameters:
        day: ${run.scheduled_at}
    - key: load
      handler: load
      needs: [extract]
      parameters:
        rows: ${steps.extract.result}
"""


def schema_in(form: JobForm, executor: ExecutorDetail | None) -> str | None:
    """What the handler that is chosen takes, if it says so."""
    return None if executor is None else executor.schema_of(form.handler)


class JobDrafts:
    """What one person writes, with what that person may see."""

    def __init__(self, services: Services, actor: Actor) -> None:
        self.actor = actor
        self.names = JobNames(services, actor)
        self._services = services

    async def executor_of(self, form: JobForm) -> ExecutorDetail | None:
        """The chosen executor with its nodes; None while none is chosen that this person sees."""
        executor_id = whole_number(form["executor_id"])
        if executor_id is None:
            return None
        try:
            return await self._services.executors.get(self.actor, executor_id)
        except NotFound:
            return None

    async def secret_names(self, executor: ExecutorDetail | None) -> list[str]:
        """Secrets of the executor that parameters may name, as far as this person may see them."""
        if executor is None or not self.actor.may(Permission.DEVELOP, executor.item.id):
            return []
        secrets = await self._services.secrets.list(self.actor, executor.item.id)
        return [each.name for each in secrets if each.exists]

    async def raw_job(self, form: JobForm) -> dict[str, Any]:
        """The raw job that the form says, its children found.

        Raises:
            InvalidInput: with every problem found.
        """
        raw, problems = await self.draft_job(form)
        if problems:
            raise InvalidInput(problems)
        return raw

    async def draft_job(self, form: JobForm) -> tuple[dict[str, Any], list[Problem]]:
        """The same as far as it can be read, and what cannot.

        Raises:
            InvalidInput: a text that is no YAML, of which nothing can be read.
        """
        if form.yaml is not None:
            return form.yaml.raw(), []
        children, unclear = await find_children(self.names, form.children)
        executor = await self.executor_of(form)
        schema = schema_in(form, executor)
        raw, problems = draft_of_form(form, children=children, schema=schema)
        if executor is not None and executor.item.protocol is Protocol.XXL_JOB:
            raw.pop("when_cut_off", None)  # its field is hidden: there is one answer only
        return raw, [*problems, *unclear]

    async def as_yaml(self, form: JobForm) -> JobForm:
        """The same job, to be typed in YAML.

        Raises:
            InvalidInput: something in the form cannot be read, and would be lost.
        """
        if form.yaml is not None:
            return form
        raw = await self.raw_job(form)
        return replace(form, yaml=yaml_of_form(raw, form.sent, form.kept_yaml))

    async def as_form(self, form: JobForm) -> JobForm:
        """The same job, to be filled into the form.

        Raises:
            InvalidInput: the text breaks a rule, and the form could not hold it; a missing name or
                handler is none of these.
        """
        view = form.yaml
        if view is None:
            return form
        raw = view.raw()
        if raw.get("workflow") is not None:
            raise InvalidInput.one(
                "workflow",
                "workflow.as_yaml",
                "The form has no fields for the steps of a workflow: it is written as YAML.",
            )
        config, missing = draft_of(raw)
        given = {name: form[name] for name in ("executor_id", "revision")}
        given["what_of"] = form["executor_id"]
        if (sent := form_kept(view)) is not None:
            former = form_as_sent(sent)
            try:
                is_former = says_the_same(view, await self.raw_job(former))
            except InvalidInput:
                is_former = False  # a child that it names is gone since
            if is_former:
                return replace(former, values={**former.values, **given}, kept_yaml=view.text)
        made = form_of_job(
            config, executor_id=0, revision=0, children=await rows_of(self.names, config.children)
        )
        values = {**made.values, **given, **dict.fromkeys(missing, "")}
        return replace(made, values=values, kept_yaml=view.text)

    async def copy_of(self, job_id: int, *, executors: Collection[int]) -> JobForm:
        """The form of a new job that is like another one.

        Args:
            executors: those that this person may add jobs to.
        """
        detail = await self._services.jobs.get(self.actor, job_id)
        job = detail.item.job
        form = form_of_job(
            job.config,
            executor_id=job.executor_id,
            revision=0,
            children=await rows_of(self.names, job.config.children),
        )
        values = {
            **form.values,
            "name": f"{job.config.name[: MAX_NAME_CHARS - 5]}-copy",
            "revision": "",
            "executor_id": str(job.executor_id) if job.executor_id in executors else "",
        }
        form = replace(form, values=values)
        return with_workflow(form, {**detail.raw, "name": values["name"]})


def with_workflow(form: JobForm, raw: Mapping[str, Any]) -> JobForm:
    """The form of a job, as YAML if it is a workflow: the form has no fields for its steps."""
    if raw.get("workflow") is None:
        return form
    return replace(form, yaml=YamlView(text=to_yaml(raw)))


def new_workflow(form: JobForm) -> JobForm:
    """The form of a new job as YAML, with two steps to begin with."""
    return replace(form, yaml=YamlView(text=_FIRST_STEPS))
