"""The server over HTTP: each request brings the API token that counts for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse

from tickwheel_admin.cli.client.connection import AdminApi
from tickwheel_admin.cli.client.target import Target

Asgi = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]
_SCHEME = "bearer "


def api_of_request(target: Target, seconds: float) -> Callable[[Context[Any, Any]], AdminApi]:
    """The API with the token that the request brought; the server has none of its own."""

    def api_of(ctx: Context[Any, Any]) -> AdminApi:
        token = _token_of((ctx.headers or {}).get("authorization", ""))
        if token is None:
            raise ToolError("The request has no API token.")
        return AdminApi(replace(target, token=token), seconds=seconds)

    return api_of


def make_app(server: MCPServer[Any], *, host: str, names: list[str]) -> Asgi:
    """The application: without state between requests, so that no session outlives its token.

    Args:
        names: further values of `Host` that are answered, such as that of a proxy in front.
    """
    local = ["127.0.0.1:*", "localhost:*", "[::1]:*"]
    hosts = [*local, *(form for name in names for form in (name, f"{name}:*"))]
    origins = [f"{scheme}://{each}" for scheme in ("http", "https") for each in hosts]
    app = server.streamable_http_app(
        stateless_http=True,
        json_response=True,
        host=host,
        transport_security=TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins),
    )
    return _with_token(app)


def _with_token(app: Asgi) -> Asgi:
    """Answer 401 to who brings none, before anything is read."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
            if _token_of(given) is None:
                told = {"error": "Send an API token of Tickwheel: Authorization: Bearer …"}
                refusal = JSONResponse(told, 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await app(scope, receive, send)

    return answer


def _token_of(header: str) -> str | None:
    token = header[len(_SCHEME) :].strip() if header.lower().startswith(_SCHEME) else ""
    usable = token.isascii() and token.isprintable() and " " not in token
    return token if token and usable else None
