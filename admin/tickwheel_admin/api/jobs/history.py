"""/api/v1/jobs/{id}/revisions and …/roll-back"""

from __future__ import annotations

from typing import cast

from aiohttp import web

from tickwheel_admin.api.answers import PageJson, answer, instant, page_view
from tickwheel_admin.api.inputs import ID, PAGING, body_fields, page_of, path_id, query_fields
from tickwheel_admin.api.jobs.config_types import JobConfigJson
from tickwheel_admin.api.jobs.shapes import JobRevisionJson, RevisionConfigJson, RevisionJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.job import job_to_raw
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.history import RevisionItem
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import required_id
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_JOB = f"/api/v1/jobs/{{job_id:{ID}}}"
_TO = required_id("to", "The revision to go back to.")
_REVISION = required_id("revision", "The current revision.")


@routes.get(
    f"{_JOB}/revisions",
    permission=Permission.VIEW,
    api=True,
    query=PAGING,
    answers=PageJson[RevisionJson],
)
async def list_revisions(request: web.Request) -> web.Response:
    """The history of a job, newest first: who changed what."""
    fields = query_fields(request)
    cursor, limit = page_of(fields)
    raise_if_any(fields.problems)
    page = await request.app[SERVICES].job_history.page(
        actor_of(request), path_id(request, "job_id"), cursor=cursor, limit=limit
    )
    return answer(page_view(page, _view))


@routes.get(
    f"{_JOB}/revisions/{{revision:{ID}}}",
    permission=Permission.VIEW,
    api=True,
    answers=RevisionConfigJson,
)
async def get_revision(request: web.Request) -> web.Response:
    """One revision of a job."""
    job_id, revision = path_id(request, "job_id"), path_id(request, "revision")
    config = await request.app[SERVICES].job_history.config(actor_of(request), job_id, revision)
    return answer(
        {"id": job_id, "revision": revision, "config": cast("JobConfigJson", job_to_raw(config))}
    )


@routes.post(
    f"{_JOB}/roll-back",
    permission=Permission.DEVELOP,
    api=True,
    body=(_TO, _REVISION),
    answers=JobRevisionJson,
    conflicts=("job.already_so", "job.changed", "job.managed_by_code", "job.name_taken"),
)
async def roll_back(request: web.Request) -> web.Response:
    """Make an earlier revision the current one."""
    job_id = path_id(request, "job_id")
    fields = await body_fields(request)
    to, expected = _TO.of(fields), _REVISION.of(fields)
    raise_if_any(fields.problems)
    made = await request.app[SERVICES].job_history.roll_back(
        actor_of(request), job_id, to, expected_revision=expected
    )
    return answer({"id": job_id, "revision": made})


def _view(item: RevisionItem) -> RevisionJson:
    return {
        "revision": item.revision,
        "at": instant(item.at),
        "by": item.by,
        "changes": [
            {"field": each.field, "before": each.before, "after": each.after}
            for each in item.changes
        ],
    }
