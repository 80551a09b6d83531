"""/api/v1/jobs/{job_id}/state"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer, instant, json_or_text
from tickwheel_admin.api.inputs import ID, body_fields, path_id
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.json_text import BadJson, text_of_object
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_STATE = f"/api/v1/jobs/{{job_id:{ID}}}/state"


@routes.get(_STATE, permission=Permission.VIEW, api=True)
async def get_state(request: web.Request) -> web.Response:
    job_id = path_id(request, "job_id")
    found = await request.app[SERVICES].job_states.get(actor_of(request), job_id)
    return answer(
        {
            "kept": found.kept,
            "state": json_or_text(found.state),
            "run_id": found.run_id,
            "updated_at": instant(found.updated_at),
        }
    )


@routes.put(_STATE, permission=Permission.DEVELOP, api=True)
async def set_state(request: web.Request) -> web.Response:
    fields = await body_fields(request, ("state", "updated_at"))
    if not fields.has("state"):
        fields.refuse("state", "required", "This is required.")
    seen_at = fields.instant("updated_at")
    raise_if_any(fields.problems)
    await request.app[SERVICES].job_states.set(
        actor_of(request),
        path_id(request, "job_id"),
        _state_in(fields),
        seen_at=seen_at,
    )
    return web.Response(status=204)


@routes.delete(_STATE, permission=Permission.DEVELOP, api=True)
async def clear_state(request: web.Request) -> web.Response:
    await request.app[SERVICES].job_states.clear(actor_of(request), path_id(request, "job_id"))
    return web.Response(status=204)


def _state_in(fields: Fields) -> str:
    try:
        return text_of_object(fields.raw["state"])
    except BadJson as error:
        raise InvalidInput.one("state", error.code, error.template, **error.params) from None
