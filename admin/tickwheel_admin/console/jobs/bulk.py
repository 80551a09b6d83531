"""The same done to many jobs: those that were selected, or all that match a filter.

What matches is done in steps of bounded size. Each answer says how far it is and, while there is
more, holds the form of the next step, which the page's script sends by itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import new_request_key, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.jobs.filter import read_job_filter
from tickwheel_admin.console.lists.bulk_progress import progress_so_far
from tickwheel_admin.console.lists.filter_box import FilterTerms
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.service import ExecutorName
from tickwheel_admin.services.jobs.bulk import BulkOfJobs, JobAction, JobChange
from tickwheel_admin.services.jobs.service import JobQuery, MatchingJobs
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

TAGGING = frozenset({JobAction.TAG, JobAction.UNTAG})
_LIVE = {"live:jobs": None, "live:runs": None, "live:stats": None}

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBulkRequest:
    """What is to be done, and with which jobs."""

    action: JobAction
    tag: str
    job_ids: tuple[int, ...]
    query: JobQuery | None  # all that match it; None: those of the ids
    filter: str  # the same as it was typed
    problems: list[Problem]  # with the filter
    back: str

    def fields(self) -> list[tuple[str, str]]:
        """What forms carry on."""
        chosen = (
            [("job", str(job_id)) for job_id in self.job_ids]
            if self.query is None
            else [("all", "yes"), ("q", self.filter)]
        )
        return [("back", self.back), *chosen]


@routes.get("/jobs/bulk", permission=Permission.OPERATE)
async def ask_bulk(request: web.Request) -> web.Response:
    asked = await _asked(request, request.query)
    return await _ask(request, asked)


@routes.post("/jobs/bulk", permission=Permission.OPERATE)
async def do_bulk(request: web.Request) -> web.Response:
    form = await read_form(request)
    if form.get("do") not in set(JobAction):  # never something else than was meant
        raise web.HTTPBadRequest
    asked, key = await _asked(request, form), form.get("request_key") or new_request_key()
    try:
        bulk = await _step(request, asked, key=key, cursor=form.get("cursor") or None)
    except InvalidInput as error:
        return await _ask(request, asked, problem=error.problems[0])
    told = progress_so_far(form, key=key, done=bulk.done, skipped=bulk.skipped, cursor=bulk.next)
    response = await _page(request, asked, {"told": told})
    response.headers["HX-Trigger"] = json.dumps(_LIVE)
    return response


@routes.get("/jobs/export", permission=Permission.VIEW)
async def export_jobs(request: web.Request) -> web.StreamResponse:
    """The jobs as one file of YAML documents."""
    asked = await _asked(request, request.query)
    if asked.problems:
        raise InvalidInput(asked.problems)
    parts = request.app[SERVICES].job_bulk.export(actor_of(request), asked.job_ids, asked.query)
    first = await anext(parts, "")  # what is refused is refused before anything is sent
    response = web.StreamResponse(
        headers={
            "Content-Type": "application/yaml; charset=utf-8",
            "Content-Disposition": 'attachment; filename="jobs.yaml"',
            "Cache-Control": "no-store",
        }
    )
    response.enable_compression()
    await response.prepare(request)
    await response.write(first.encode())
    async for part in parts:
        await response.write(part.encode())
    await response.write_eof()
    return response


async def _ask(
    request: web.Request, asked: JobBulkRequest, *, problem: Problem | None = None
) -> web.Response:
    matching = MatchingJobs(len(asked.job_ids), False)
    if asked.problems:
        matching, problem = MatchingJobs(0, False), asked.problems[0]
    elif asked.query is not None:
        matching = await request.app[SERVICES].job_bulk.count(actor_of(request), asked.query)
    context = {"request_key": new_request_key(), "matching": matching, "problem": problem}
    return await _page(request, asked, context, status=200 if problem is None else 422)


async def _step(
    request: web.Request, asked: JobBulkRequest, *, key: str, cursor: str | None
) -> BulkOfJobs:
    service, actor = request.app[SERVICES].job_bulk, actor_of(request)
    if asked.problems:
        raise InvalidInput(asked.problems)
    change = JobChange(action=asked.action, tag=asked.tag or None, request_key=key)
    if asked.query is None:
        return await service.many(actor, asked.job_ids, change)
    return await service.matching(actor, asked.query, change, cursor=cursor)


async def _page(
    request: web.Request, asked: JobBulkRequest, context: dict[str, Any], *, status: int = 200
) -> web.Response:
    set_locale(request)
    values = {"asked": asked, "tagging": asked.action in TAGGING, "told": None, "problem": None}
    return await render(request, "jobs/bulk.html", values | context, status=status, block="dialog")


async def _asked(request: web.Request, values: MultiMapping[str]) -> JobBulkRequest:
    everything = values.get("all") == "yes"
    typed, query = FilterTerms("", {}, ()), None
    if everything:
        executors: list[ExecutorName] = await request.app[SERVICES].executors.names(
            actor_of(request)
        )
        typed, query = read_job_filter({"q": values.get("q", "")}, executors)
    ids = (whole_number(text) for text in values.getall("job", []))
    doing = values.get("do", "")
    return JobBulkRequest(
        action=JobAction(doing) if doing in set(JobAction) else JobAction.PAUSE,
        tag=values.get("tag", "").strip(),
        job_ids=() if everything else tuple(dict.fromkeys(i for i in ids if i is not None)),
        query=query,
        filter=typed.text,
        problems=typed.problems,
        back=safe_next(values.get("back"), default="/jobs"),
    )
