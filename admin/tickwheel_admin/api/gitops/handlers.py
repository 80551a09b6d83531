"""/api/v1/executors/{executor_id}/check-handlers: what a new version of a service would break."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict, cast

from aiohttp import web
from msgspec import Meta

from tickwheel_admin.api.answers import ProblemJson, answer, doc
from tickwheel_admin.api.inputs import ID, body_fields, path_id
from tickwheel_admin.domain.fields import raise_if_any
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.gitops.handler_check import BrokenThing, check_handlers
from tickwheel_admin.web.errors import problem_view
from tickwheel_admin.web.i18n import language_of
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.input_fields import given
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

routes = Routes()

MAX_HANDLERS = 2_000
_HANDLERS = given(
    "handlers",
    "JSON Schema of the parameters of each; null: it takes whatever it is given.",
    Annotated[dict[str, dict[str, Any] | None], Meta(max_length=MAX_HANDLERS)],
    required=True,
)


class HandlerBreakJson(TypedDict):
    """A job, a step or a queued run that would fail."""

    what: BrokenThing
    job_id: int
    job_name: str
    run_id: int | None
    problem: ProblemJson


class HandlerCheckJson(TypedDict):
    """What was looked at, and what would break."""

    jobs: int
    steps: int
    runs: Annotated[int, doc("Queued ones that were looked at: all, unless `breaks` is full.")]
    breaks: list[HandlerBreakJson]


@routes.post(
    f"/api/v1/executors/{{executor_id:{ID}}}/check-handlers",
    permission=Permission.VIEW,
    api=True,
    body=(_HANDLERS,),
    answers=HandlerCheckJson,
)
async def check_new_handlers(request: web.Request) -> web.Response:
    """What would break if a new version of the service had these handlers and no others."""
    fields = await body_fields(request)
    handlers = _HANDLERS.of(fields)
    if (
        not isinstance(handlers, dict)
        or len(handlers) > MAX_HANDLERS
        or not all(each is None or isinstance(each, dict) for each in handlers.values())
    ):
        fields.refuse(
            "handlers", "wrong_type", "This must be an object: a JSON Schema, or null, by handler."
        )
    raise_if_any(fields.problems)
    store = request.app[SERVICES].store
    found = await check_handlers(
        store, actor_of(request), path_id(request, "executor_id"), handlers
    )
    language = language_of(request)
    return answer(
        {
            "jobs": found.jobs,
            "steps": found.steps,
            "runs": found.runs,
            "breaks": [
                {
                    "what": each.what.value,
                    "job_id": each.job_id,
                    "job_name": each.job_name,
                    "run_id": each.run_id,
                    "problem": cast("ProblemJson", problem_view(each.problem, language)),
                }
                for each in found.breaks
            ],
        }
    )
