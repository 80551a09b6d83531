"""Where nodes connect: the token is checked before the upgrade and before anything is stored."""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web

from tickwheel_admin.domain.errors import NotLoggedIn
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.engine.membership.membership import Membership
from tickwheel_admin.engine.recorder.loop import Recorder
from tickwheel_admin.links.certificates import refuse_without_certificate
from tickwheel_admin.links.channel import NodeWebSocket
from tickwheel_admin.links.hub import LinkHub
from tickwheel_admin.links.session import NodeSession
from tickwheel_admin.services.users.credentials import sha256
from tickwheel_admin.web.client import address_of
from tickwheel_admin.web.routes import Routes
from tickwheel_shared.protocol import LINK_PATH, MAX_FRAME_BYTES

PING_SECONDS = 10  # with half of it for the answer: a silent socket is dead after 15 s

MEMBERSHIP = web.AppKey("membership", Membership)
RECORDER = web.AppKey("recorder", Recorder)
HUB = web.AppKey("hub", LinkHub)

routes = Routes()


# Public, because people's logins do not count here: the executor's token is checked instead.
@routes.get(LINK_PATH, permission=Permission.PUBLIC, api=True)
async def link(request: web.Request) -> web.StreamResponse:
    """Upgrade to a WebSocket and serve the node until it closes."""
    # Before the token: with a stolen one alone, nobody learns whether it is valid.
    if (refusal := refuse_without_certificate(request)) is not None:
        return refusal
    membership = request.app[MEMBERSHIP]
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    token_hash = sha256(token.strip())  # of any bytes that came
    executor = None
    if scheme.lower() == "bearer" and token.strip():
        executor = await membership.executor_of(token_hash)
    if executor is None:
        raise NotLoggedIn("node.token_invalid", "The executor token is missing, wrong or revoked.")
    socket = web.WebSocketResponse(
        heartbeat=PING_SECONDS, max_msg_size=MAX_FRAME_BYTES, compress=False
    )
    try:
        await socket.prepare(request)
    except ConnectionResetError:
        return (
            web.Response()
        )  # the node left meanwhile, or this process was frozen: nobody reads it
    executor_id, executor_name = executor
    session = NodeSession(
        NodeWebSocket(socket),
        executor_id=executor_id,
        executor_name=executor_name,
        token_hash=token_hash,
        address=address_of(request),
        hub=request.app[HUB],
        membership=membership,
        recorder=request.app[RECORDER],
    )
    try:
        await session.serve()
    except asyncio.CancelledError:
        session.close(1001, "the admin stops")
        raise
    return socket
