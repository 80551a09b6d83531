"""/api/v1/executors/{executor_id}/secrets: names and what became of them, never values."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant
from tickwheel_admin.api.inputs import ID, body_fields, path_id
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.secrets.service import SecretItem
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ALL = f"/api/v1/executors/{{executor_id:{ID}}}/secrets"
_ONE = f"{_ALL}/{{name}}"


@routes.get(_ALL, permission=Permission.DEVELOP, api=True)
async def list_secrets(request: web.Request) -> web.Response:
    items = await request.app[SERVICES].secrets.list(
        actor_of(request), path_id(request, "executor_id")
    )
    return answer({"items": [_view(item) for item in items]})


@routes.put(_ONE, permission=Permission.ADMINISTER, api=True)
async def put_secret(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("value",))
    value = fields.raw.get("value")
    if not isinstance(value, str):
        fields.refuse("value", "wrong_type", "This must be text.")
    raise_if_any(fields.problems)
    executor_id, name = path_id(request, "executor_id"), request.match_info["name"]
    await request.app[SERVICES].secrets.put(actor_of(request), executor_id, name, str(value))
    return web.Response(status=204)


@routes.delete(_ONE, permission=Permission.ADMINISTER, api=True)
async def delete_secret(request: web.Request) -> web.Response:
    executor_id, name = path_id(request, "executor_id"), request.match_info["name"]
    await request.app[SERVICES].secrets.delete(actor_of(request), executor_id, name)
    return web.Response(status=204)


def _view(item: SecretItem) -> dict[str, Any]:
    return {
        "name": item.name,
        "exists": item.exists,
        "readable": item.readable,
        "version": item.version,
        "created_at": instant(item.created_at),
        "created_by": item.created_by,
        "updated_at": instant(item.updated_at),
        "updated_by": item.updated_by,
        "last_used_at": instant(item.last_used_at),
        "jobs": [{"id": job_id, "name": name} for job_id, name in item.jobs],
    }
