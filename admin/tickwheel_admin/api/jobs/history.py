"""/api/v1/jobs/{id}/revisions and …/roll-back"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant, page_view
from tickwheel_admin.api.inputs import (
    ID,
    MAX_ID,
    body_fields,
    page_of,
    path_id,
    query_fields,
)
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.history import RevisionItem
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_JOB = f"/api/v1/jobs/{{job_id:{ID}}}"


@routes.get(f"{_JOB}/revisions", permission=Permission.VIEW, api=True)
async def list_revisions(request: web.Request) -> web.Response:
    fields = query_fields(request, ("cursor", "limit"))
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].job_history.page(
        actor_of(request), path_id(request, "job_id"), cursor=cursor, limit=limit
    )
    return answer(page_view(page, _view))


@routes.get(f"{_JOB}/revisions/{{revision:{ID}}}", permission=Permission.VIEW, api=True)
async def get_revision(request: web.Request) -> web.Response:
    job_id, revision = path_id(request, "job_id"), path_id(request, "revision")
    config = await request.app[SERVICES].job_history.config(actor_of(request), job_id, revision)
    return answer({"id": job_id, "revision": revision, "config": job_to_raw(config)})


@routes.post(f"{_JOB}/roll-back", permission=Permission.DEVELOP, api=True)
async def roll_back(request: web.Request) -> web.Response:
    job_id = path_id(request, "job_id")
    fields = await body_fields(request, ("to", "revision"))
    to, expected = (_required(fields, name) for name in ("to", "revision"))
    raise_if_any(fields.problems)
    made = await request.app[SERVICES].job_history.roll_back(
        actor_of(request), job_id, to, expected_revision=expected
    )
    return answer({"id": job_id, "revision": made})


def _required(fields: Fields, name: str) -> int:
    if not fields.has(name):
        fields.refuse(name, "required", "This is required.")
    return fields.integer(name, low=1, high=MAX_ID, default=1)


def _view(item: RevisionItem) -> dict[str, Any]:
    return {
        "revision": item.revision,
        "at": instant(item.at),
        "by": item.by,
        "changes": [
            {"field": each.field, "before": each.before, "after": each.after}
            for each in item.changes
        ],
    }
