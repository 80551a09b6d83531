"""/api/v1/jobs/{job_id}/try-script"""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.api.answers import answer
from tickwheel_admin.api.inputs import (
    ID,
    IDEMPOTENCY_KEY,
    PARAMETERS,
    body_fields,
    parameters_of,
    path_id,
    request_key_of,
)
from tickwheel_admin.api.runs.shapes import NewRunJson
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.input.script import SCRIPT_FIELDS
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given, required_id
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

_ABOUT = {
    "language": "Of the script.",
    "source": "At most 256 KiB.",
    "sha256": "Of the source; alone, it stands for the job's current one.",
    "remark": "What was changed.",
    "signature": "Of `tickwheel script sign`, in base64.",
}
_SCRIPT = tuple(
    given(name, _ABOUT[name], str, required=name == "language") for name in SCRIPT_FIELDS
)
_NODE = required_id("node_id", "The node on which it runs.")


@routes.post(
    f"/api/v1/jobs/{{job_id:{ID}}}/try-script",
    permission=Permission.SCRIPT,
    api=True,
    body=(*_SCRIPT, _NODE, PARAMETERS),
    headers=(IDEMPOTENCY_KEY,),
    answers=NewRunJson,
    status=202,
    conflicts=("script.no_job",),
)
async def try_script(request: web.Request) -> web.Response:
    """Run a script that is not saved, once and on one node."""
    fields = await body_fields(request)
    node_id = _NODE.of(fields)
    raise_if_any(fields.problems)
    script = {name: value for name, value in fields.raw.items() if name in SCRIPT_FIELDS}
    run_id = await request.app[SERVICES].script_tries.start(
        actor_of(request),
        path_id(request, "job_id"),
        script,
        node_id=node_id,
        parameters=parameters_of(fields.raw),
        request_key=request_key_of(request),
    )
    return answer({"run_id": run_id}, status=202, location=f"/api/v1/runs/{run_id}")
