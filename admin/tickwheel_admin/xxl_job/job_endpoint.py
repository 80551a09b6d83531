"""XXL-JOB's own job API, for scripts that use it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from tickwheel_admin.domain.errors import Unavailable, UserError
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.xxl_job.job_requests import XxlJobRequests, actor_of
from tickwheel_admin.services.xxl_job.nodes import DatabaseUnavailable
from tickwheel_admin.web.client import address_of
from tickwheel_admin.web.routes import Routes
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.dialects import BadRequest
from tickwheel_admin.xxl_job.endpoint import (
    APP_HEADER,
    BASES,
    DONE,
    FAILED,
    INBOUND,
    TOKEN_HEADER,
    read_body,
)
from tickwheel_admin.xxl_job.inbound import CallerRefused

MAX_BODY_BYTES = 256 * 1024

REQUESTS = web.AppKey("xxl_job_requests", XxlJobRequests)

routes = Routes()


def _route(name: str) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(request: web.Request) -> web.Response:
        return await _answered(request, name)

    return handler


for _name in ("addJob", "updateJob", "removeJob", "startJob", "stopJob", "triggerJob"):
    for _base in BASES:
        # Public, because people's logins do not count here: the access token is checked.
        routes.post(f"{_base}/{_name}", permission=Permission.PUBLIC, api=True)(_route(_name))


async def _answered(request: web.Request, name: str) -> web.Response:
    inbound, address = request.app[INBOUND], address_of(request)
    code, message, data = FAILED, "", None
    try:
        executors = await inbound.shown_by(
            request.headers.get(TOKEN_HEADER, ""), request.headers.get(APP_HEADER)
        )
        body = _object(await read_body(request, MAX_BODY_BYTES))
        told = await request.app[REQUESTS].by_name[name](
            actor_of(executors, address=address), [each.id for each in executors], body
        )
        code, data = DONE, told or None
    except CallerRefused as refused:
        inbound.note_refusal(refused, address=address, path=request.path)
        message = str(refused)
    except (DatabaseUnavailable, Unavailable):
        message = "The database does not answer; try again later."
    except UserError as error:
        message = str(error)
    except (BadRequest, ValueError) as error:
        message = str(error)
    except TimeoutError:
        message = "The body did not arrive in time."
    return web.Response(
        body=dialects.answer(code, message, data=data), content_type="application/json"
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("the body is no JSON") from None
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    return found
