"""/api/v1/jobs/{job_id}/try-script"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import ID, parameters_of, path_id, request_key_of, take_id
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_json
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()


@routes.post(f"/api/v1/jobs/{{job_id:{ID}}}/try-script", permission=Permission.SCRIPT, api=True)
async def try_script(request: web.Request) -> web.Response:
    body = await read_json(request)
    problems: list[Problem] = []
    node_id = take_id(body, "node_id", problems)
    raise_if_any(problems)
    parameters = parameters_of(body)
    body.pop("parameters", None)
    run_id = await request.app[SERVICES].script_tries.start(
        actor_of(request),
        path_id(request, "job_id"),
        body,
        node_id=node_id,
        parameters=parameters,
        request_key=request_key_of(request),
    )
    return answer({"run_id": run_id}, status=202, location=f"/api/v1/runs/{run_id}")
