"""/api/v1/runs/purge: delete ended runs by age, or all but the newest."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import MAX_CURSOR_CHARS, body_fields
from tickwheel_admin.api.runs.shapes import MatchingJson, PurgedJson
from tickwheel_admin.api.runs.views import matching_view
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.runs.purge import MAX_KEEP_NEWEST, MAX_OLDER_THAN_SECONDS
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import optional_id, optional_integer, text
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_PURGE = "/api/v1/runs/purge"
_EXECUTOR = optional_id("executor_id", "Runs of this executor.")
_JOB = optional_id("job_id", "Runs of this job, which may be deleted.")
_OLDER = optional_integer(
    "older_than_seconds",
    "Runs scheduled so long ago; give either this or `keep_newest`.",
    low=0,
    high=MAX_OLDER_THAN_SECONDS,
)
_NEWEST = optional_integer(
    "keep_newest", "All but so many newest ended runs of each job.", low=0, high=MAX_KEEP_NEWEST
)
_CURSOR = text("cursor", "`next` of the answer before.", max_chars=MAX_CURSOR_CHARS)
_RULE = (_EXECUTOR, _JOB, _OLDER, _NEWEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Which ended runs somebody wants gone."""

    executor_id: int | None
    job_id: int | None
    older_than_seconds: int | None
    keep_newest: int | None


@routes.post(
    _PURGE, permission=Permission.ADMINISTER, api=True, body=(*_RULE, _CURSOR), answers=PurgedJson
)
async def purge_runs(request: web.Request) -> web.Response:
    """Delete ended runs, by age or all but the newest, in steps."""
    fields = await body_fields(request)
    rule = _rule_of(fields)
    cursor = _CURSOR.of(fields) or None
    raise_if_any(fields.problems)
    purged = await request.app[SERVICES].purge.step(
        actor_of(request),
        executor_id=rule.executor_id,
        job_id=rule.job_id,
        older_than_seconds=rule.older_than_seconds,
        keep_newest=rule.keep_newest,
        cursor=cursor,
    )
    return answer({"deleted": purged.deleted, "next": purged.next})


@routes.post(
    f"{_PURGE}/preview",
    permission=Permission.ADMINISTER,
    api=True,
    body=_RULE,
    answers=MatchingJson,
)
async def preview_purge(request: web.Request) -> web.Response:
    """How many runs would go. Changes nothing."""
    fields = await body_fields(request)
    rule = _rule_of(fields)
    raise_if_any(fields.problems)
    matching = await request.app[SERVICES].purge.preview(
        actor_of(request),
        executor_id=rule.executor_id,
        job_id=rule.job_id,
        older_than_seconds=rule.older_than_seconds,
        keep_newest=rule.keep_newest,
    )
    return answer(matching_view(matching))


def _rule_of(fields: Fields) -> _Rule:
    return _Rule(
        executor_id=_EXECUTOR.of(fields),
        job_id=_JOB.of(fields),
        older_than_seconds=_OLDER.of(fields),
        keep_newest=_NEWEST.of(fields),
    )
