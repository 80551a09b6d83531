"""/api/v1/jobs/{job_id}/try-script"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import (
    ID,
    body_fields,
    optional_id,
    parameters_of,
    path_id,
    request_key_of,
)
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.script import SCRIPT_FIELDS
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.post(f"/api/v1/jobs/{{job_id:{ID}}}/try-script", permission=Permission.SCRIPT, api=True)
async def try_script(request: web.Request) -> web.Response:
    fields = await body_fields(request, (*SCRIPT_FIELDS, "node_id", "parameters"))
    fields.require("node_id")
    node_id = optional_id(fields, "node_id")
    raise_if_any(fields.problems)
    script = {name: value for name, value in fields.raw.items() if name in SCRIPT_FIELDS}
    run_id = await request.app[SERVICES].script_tries.start(
        actor_of(request),
        path_id(request, "job_id"),
        script,
        node_id=node_id or 0,
        parameters=parameters_of(fields.raw),
        request_key=request_key_of(request),
    )
    return answer({"run_id": run_id}, status=202, location=f"/api/v1/runs/{run_id}")
