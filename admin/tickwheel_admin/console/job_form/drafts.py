"""Jobs that are being written: what a form or a YAML text says, and one made of the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.job_form.children import find_children, rows_of
from tickwheel_admin.console.job_form.form import JobForm, draft_of_form, form_as_sent, form_of_job
from tickwheel_admin.console.job_form.yaml_view import (
    draft_of,
    form_kept,
    says_the_same,
    yaml_of_form,
)
from tickwheel_admin.domain.errors import InvalidInput, NotFound, Problem
from tickwheel_admin.domain.input.job import MAX_NAME_CHARS
from tickwheel_admin.services.executors.service import ExecutorDetail
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES


async def executor_of(request: web.Request, form: JobForm) -> ExecutorDetail | None:
    """The chosen executor with its nodes; None while none is chosen that this person sees."""
    executor_id = whole_number(form["executor_id"])
    if executor_id is None:
        return None
    try:
        return await request.app[SERVICES].executors.get(actor_of(request), executor_id)
    except NotFound:
        return None


def schema_in(form: JobForm, executor: ExecutorDetail | None) -> str | None:
    """What the handler that is typed takes, if it says so."""
    return None if executor is None else executor.schemas.get(form["handler"].strip())


async def raw_job(request: web.Request, form: JobForm) -> dict[str, Any]:
    """The raw job that the form says, its children found.

    Raises:
        InvalidInput: with every problem found.
    """
    raw, problems = await draft_job(request, form)
    if problems:
        raise InvalidInput(problems)
    return raw


async def draft_job(request: web.Request, form: JobForm) -> tuple[dict[str, Any], list[Problem]]:
    """The same as far as it can be read, and what cannot.

    Raises:
        InvalidInput: a text that is no YAML, of which nothing can be read.
    """
    if form.yaml is not None:
        return form.yaml.raw(), []
    children, unclear = await find_children(request, form.children)
    schema = schema_in(form, await executor_of(request, form))
    raw, problems = draft_of_form(form, children=children, schema=schema)
    return raw, [*problems, *unclear]


async def as_yaml(request: web.Request, form: JobForm) -> JobForm:
    """The same job, to be typed in YAML.

    Raises:
        InvalidInput: something in the form cannot be read, and would be lost.
    """
    if form.yaml is not None:
        return form
    raw = await raw_job(request, form)
    return replace(form, yaml=yaml_of_form(raw, form.sent, form.kept_yaml))


async def as_form(request: web.Request, form: JobForm) -> JobForm:
    """The same job, to be filled into the form.

    Raises:
        InvalidInput: the text breaks a rule, and the form could not hold it; a missing name or
            handler is none of these.
    """
    view = form.yaml
    if view is None:
        return form
    config, missing = draft_of(view.raw())
    given = {name: form[name] for name in ("executor_id", "revision")}
    if (sent := form_kept(view)) is not None:
        former = form_as_sent(sent)
        try:
            is_former = says_the_same(view, await raw_job(request, former))
        except InvalidInput:
            is_former = False  # a child that it names is gone since
        if is_former:
            return replace(former, values={**former.values, **given}, kept_yaml=view.text)
    made = form_of_job(
        config, executor_id=0, revision=0, children=await rows_of(request, config.children)
    )
    values = {**made.values, **given, **dict.fromkeys(missing, "")}
    return replace(made, values=values, kept_yaml=view.text)


async def copy_of(request: web.Request, job_id: int, *, executors: Collection[int]) -> JobForm:
    """The form of a new job that is like another one.

    Args:
        executors: those that this person may add jobs to.
    """
    job = (await request.app[SERVICES].jobs.get(actor_of(request), job_id)).item.job
    form = form_of_job(
        job.config,
        executor_id=job.executor_id,
        revision=0,
        children=await rows_of(request, job.config.children),
    )
    values = {
        **form.values,
        "name": f"{job.config.name[: MAX_NAME_CHARS - 5]}-copy",
        "revision": "",
        "executor_id": str(job.executor_id) if job.executor_id in executors else "",
    }
    return replace(form, values=values)
