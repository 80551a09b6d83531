"""/healthz/stream: answers piece by piece, so that `tickwheel doctor` sees what a proxy holds back.

Pages and nodes live on streams and WebSockets. A proxy that buffers the first, or does not pass the
second on, lets every short request through.
"""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web

from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.routes import Routes

PIECES = 3
PAUSE_SECONDS = 0.3
MAX_PROBES = 8  # at once: it is open to everybody

routes = Routes()
_PROBES: web.AppKey[asyncio.Semaphore] = web.AppKey("probes", asyncio.Semaphore)


@routes.get("/healthz/stream", permission=Permission.PUBLIC, api=True)
async def probe(request: web.Request) -> web.StreamResponse:
    """Three pieces in 0.6 seconds: events of a stream, or messages if a WebSocket is asked for."""
    probes = request.app[_PROBES]
    if probes.locked():
        raise Unavailable("probe.busy", "Too many probes at once; try again in a second.")
    async with probes:
        if request.headers.get(hdrs.UPGRADE, "").lower() == "websocket":
            return await _messages(request)
        return await _events(request)


def add_probe(app: web.Application) -> None:
    """Add the route."""
    app[_PROBES] = asyncio.Semaphore(MAX_PROBES)
    routes.add_to(app)


async def _events(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={
            hdrs.CONTENT_TYPE: "text/event-stream",
            hdrs.CACHE_CONTROL: "no-store",
            "X-Accel-Buffering": "no",  # as the streams of pages say it
        }
    )
    await response.prepare(request)
    for number in range(PIECES):
        await response.write(f"data: {number}\n\n".encode())
        await asyncio.sleep(PAUSE_SECONDS if number < PIECES - 1 else 0)
    await response.write_eof()
    return response


async def _messages(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(max_msg_size=1_024, compress=False)
    await socket.prepare(request)
    for number in range(PIECES):
        await socket.send_str(str(number))
        await asyncio.sleep(PAUSE_SECONDS if number < PIECES - 1 else 0)
    await socket.close()
    return socket
