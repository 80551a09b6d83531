"""What executors call: registration, its end, and reports of runs.

Every answer has HTTP status 200, as their clients expect; its code tells success (200) and failure
(500). A body is read only once the access token is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog
from aiohttp import hdrs, web

from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.domain.xxl_job.bridge import ClientKind, XxlExecutor, client_of
from tickwheel_admin.services.xxl_job.nodes import DatabaseUnavailable
from tickwheel_admin.web.client import address_of
from tickwheel_admin.web.routes import Routes
from tickwheel_admin.xxl_job import dialects
from tickwheel_admin.xxl_job.callbacks import NotRecorded
from tickwheel_admin.xxl_job.dialects import BadRequest, Dialect
from tickwheel_admin.xxl_job.inbound import CallerRefused, Inbound

log = structlog.get_logger(__name__)

BASES = ("/api", "/xxl-job-admin/api")
BODY_SECONDS = 20
THROWN_AWAY_BYTES = 4 * 1024 * 1024  # of a body that is too long
TOKEN_HEADER = "XXL-JOB-ACCESS-TOKEN"  # noqa: S105 - a header's name
APP_HEADER = "XXL-JOB-APPNAME"
FAILED = 500
DONE = 200

INBOUND = web.AppKey("xxl_inbound", Inbound)

routes = Routes()

Action = Callable[[web.Request, Sequence[XxlExecutor], Dialect | None], Awaitable[str]]


def _on(path: str) -> Callable[[Action], Action]:
    """Answer a path below both bases."""

    def add(action: Action) -> Action:
        async def handler(request: web.Request) -> web.Response:
            return await _answered(request, action)

        for base in BASES:
            # Public, because people's logins do not count here: the access token is checked.
            routes.post(base + path, permission=Permission.PUBLIC, api=True)(handler)
        return action

    return add


@_on("/registry")
async def register(
    request: web.Request, executors: Sequence[XxlExecutor], dialect: Dialect | None
) -> str:
    """An executor tells where it listens."""
    said = dialects.read_registry(await read_body(request, dialects.MAX_REGISTRY_BYTES))
    await request.app[INBOUND].register(said, executors, dialect, _client(request))
    return ""


@_on("/registryRemove")
async def unregister(
    request: web.Request, executors: Sequence[XxlExecutor], dialect: Dialect | None
) -> str:
    """An executor stops listening."""
    said = dialects.read_registry(await read_body(request, dialects.MAX_REGISTRY_BYTES))
    await request.app[INBOUND].unregister(said, executors)
    return ""


@_on("/callback")
async def callback(
    request: web.Request, executors: Sequence[XxlExecutor], dialect: Dialect | None
) -> str:
    """Runs have ended."""
    said = dialects.read_callbacks(await read_body(request, dialects.MAX_CALLBACKS_BYTES))
    inbound = request.app[INBOUND]

    def note(refused: CallerRefused) -> None:
        inbound.note_refusal(refused, address=address_of(request), path=request.path)

    return await inbound.report(said, executors, _client(request), note=note)


async def _answered(request: web.Request, action: Action) -> web.Response:
    inbound = request.app[INBOUND]
    try:
        token = request.headers.get(TOKEN_HEADER, "")
        app_name = request.headers.get(APP_HEADER)
        executors = await inbound.shown_by(token, app_name)
        message = await action(request, executors, Dialect.C if app_name is not None else None)
        code = DONE
    except CallerRefused as refused:
        inbound.note_refusal(refused, address=address_of(request), path=request.path)
        code, message = FAILED, str(refused)
    except BadRequest as error:
        unreadable = CallerRefused("unreadable", str(error))
        inbound.note_refusal(unreadable, address=address_of(request), path=request.path)
        code, message = FAILED, str(error)
    except TimeoutError:
        code, message = FAILED, f"the body did not arrive within {BODY_SECONDS} s"
    except (DatabaseUnavailable, NotRecorded):
        # No answer at all: told of a failure, some clients report their run as failed instead.
        log.warning("xxl.unanswered", path=request.path)
        if request.transport is not None:
            request.transport.abort()
        code, message = FAILED, "it cannot be answered now"
    return web.Response(body=dialects.answer(code, message), content_type="application/json")


def _client(request: web.Request) -> ClientKind:
    return client_of(request.headers.get(hdrs.USER_AGENT, ""))


async def read_body(request: web.Request, most: int) -> bytes:
    """Raises BadRequest beyond `most` bytes, TimeoutError when it comes too slowly.

    A little more is thrown away, so that its sender can read the refusal; whoever sends still more
    is hung up on, for the server would go on reading for seconds.
    """
    parts: list[bytes] = []
    size = 0
    async with asyncio.timeout(BODY_SECONDS):
        async for part in request.content.iter_any():
            size += len(part)
            if size <= most:
                parts.append(part)
            elif size > most + THROWN_AWAY_BYTES:
                if request.transport is not None:
                    request.transport.abort()
                break
    if size > most:
        raise BadRequest(f"the body is longer than {most} bytes")
    return b"".join(parts)
