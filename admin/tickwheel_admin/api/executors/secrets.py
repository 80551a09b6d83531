"""/api/v1/executors/{executor_id}/secrets: names and what became of them, never values."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import ItemsJson, answer, instant
from tickwheel_admin.api.executors.shapes import SecretJson
from tickwheel_admin.api.inputs import ID, body_fields, path_id
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.secrets.service import SecretItem
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_ALL = f"/api/v1/executors/{{executor_id:{ID}}}/secrets"
_VALUE = given("value", "At least 4 characters, at most 4 KiB.", str, required=True)
_ONE = f"{_ALL}/{{name}}"


@routes.get(_ALL, permission=Permission.DEVELOP, api=True, answers=ItemsJson[SecretJson])
async def list_secrets(request: web.Request) -> web.Response:
    """The secrets of an executor, without their values."""
    items = await request.app[SERVICES].secrets.list(
        actor_of(request), path_id(request, "executor_id")
    )
    return answer({"items": [_view(item) for item in items]})


@routes.put(
    _ONE,
    permission=Permission.ADMINISTER,
    api=True,
    body=(_VALUE,),
    answers=NoContent,
    conflicts=("executor.other_protocol", "secret.too_many", "secret_key.missing"),
)
async def put_secret(request: web.Request) -> web.Response:
    """Set a secret, or another value."""
    fields = await body_fields(request)
    value = fields.raw.get("value")
    if not isinstance(value, str):
        fields.refuse("value", "wrong_type", "This must be text.")
    raise_if_any(fields.problems)
    executor_id, name = path_id(request, "executor_id"), request.match_info["name"]
    await request.app[SERVICES].secrets.put(actor_of(request), executor_id, name, str(value))
    return web.Response(status=204)


@routes.delete(
    _ONE,
    permission=Permission.ADMINISTER,
    api=True,
    answers=NoContent,
    conflicts=("secret.in_use",),
)
async def delete_secret(request: web.Request) -> web.Response:
    """Delete a secret that no job names."""
    executor_id, name = path_id(request, "executor_id"), request.match_info["name"]
    await request.app[SERVICES].secrets.delete(actor_of(request), executor_id, name)
    return web.Response(status=204)


def _view(item: SecretItem) -> SecretJson:
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
