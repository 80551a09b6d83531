"""/api/v1/jobs/{job_id}/state"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.api.answers import answer, json_or_text
from tickwheel_admin.api.answers import instant as told_instant
from tickwheel_admin.api.inputs import ID, body_fields, path_id
from tickwheel_admin.api.jobs.shapes import KeptStateJson
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import Fields, raise_if_any
from tickwheel_admin.domain.input.json_text import BadJson, text_of_object
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given, instant
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import NoContent, Routes

routes = Routes()

_STATE = f"/api/v1/jobs/{{job_id:{ID}}}/state"
_NEW_STATE = given("state", "A JSON object of at most 64 KiB.", dict[str, Any], required=True)
_SEEN_AT = instant("updated_at", "As read: it is refused if the state has changed since.")


@routes.get(_STATE, permission=Permission.VIEW, api=True, answers=KeptStateJson)
async def get_state(request: web.Request) -> web.Response:
    """The state that a job keeps from run to run."""
    job_id = path_id(request, "job_id")
    found = await request.app[SERVICES].job_states.get(actor_of(request), job_id)
    return answer(
        {
            "kept": found.kept,
            "state": json_or_text(found.state),
            "run_id": found.run_id,
            "updated_at": told_instant(found.updated_at),
        }
    )


@routes.put(
    _STATE,
    permission=Permission.DEVELOP,
    api=True,
    body=(_NEW_STATE, _SEEN_AT),
    answers=NoContent,
    conflicts=("job.keeps_no_state", "job.state_changed"),
)
async def set_state(request: web.Request) -> web.Response:
    """Set the state for the next run."""
    fields = await body_fields(request)
    _NEW_STATE.of(fields)
    seen_at = _SEEN_AT.of(fields)
    raise_if_any(fields.problems)
    await request.app[SERVICES].job_states.set(
        actor_of(request),
        path_id(request, "job_id"),
        _state_in(fields),
        seen_at=seen_at,
    )
    return web.Response(status=204)


@routes.delete(
    _STATE,
    permission=Permission.DEVELOP,
    api=True,
    answers=NoContent,
    conflicts=("job.keeps_no_state",),
)
async def clear_state(request: web.Request) -> web.Response:
    """Clear the state: the next run starts from an empty one."""
    await request.app[SERVICES].job_states.clear(actor_of(request), path_id(request, "job_id"))
    return web.Response(status=204)


def _state_in(fields: Fields) -> str:
    try:
        return text_of_object(fields.raw["state"])
    except BadJson as error:
        raise InvalidInput.one("state", error.code, error.template, **error.params) from None
