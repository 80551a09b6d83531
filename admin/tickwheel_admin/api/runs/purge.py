"""/api/v1/runs/purge: delete ended runs by age, or all but the newest."""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import MAX_CURSOR_CHARS, body_fields, optional_id
from tickwheel_admin.api.runs.views import matching_view
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.runs.purge import MAX_KEEP_NEWEST, MAX_OLDER_THAN_SECONDS
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_PURGE = "/api/v1/runs/purge"
_RULE = ("executor_id", "job_id", "older_than_seconds", "keep_newest")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Which ended runs somebody wants gone."""

    executor_id: int | None
    job_id: int | None
    older_than_seconds: int | None
    keep_newest: int | None


@routes.post(_PURGE, permission=Permission.ADMINISTER, api=True)
async def purge_runs(request: web.Request) -> web.Response:
    fields = await body_fields(request, (*_RULE, "cursor"))
    rule = _rule_of(fields)
    cursor = fields.text("cursor", max_chars=MAX_CURSOR_CHARS) or None
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


@routes.post(f"{_PURGE}/preview", permission=Permission.ADMINISTER, api=True)
async def preview_purge(request: web.Request) -> web.Response:
    """How many runs would go. Changes nothing."""
    fields = await body_fields(request, _RULE)
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
        executor_id=optional_id(fields, "executor_id"),
        job_id=optional_id(fields, "job_id"),
        older_than_seconds=_number(fields, "older_than_seconds", high=MAX_OLDER_THAN_SECONDS),
        keep_newest=_number(fields, "keep_newest", high=MAX_KEEP_NEWEST),
    )


def _number(fields: Fields, name: str, *, high: int) -> int | None:
    number = fields.integer(name, low=0, high=high, default=0)
    return number if fields.has(name) else None
