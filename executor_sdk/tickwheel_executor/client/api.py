"""HTTP requests to the first admin that answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from tickwheel_executor.errors import (
    ClientError,
    ConnectError,
    NoAdminError,
    NotFoundError,
    TokenRefusedError,
)
from tickwheel_executor.tls import TlsSettings
from tickwheel_executor.version import SDK

_REQUEST_SECONDS = 15.0  # an admin without its database answers well before
_PAUSES = (0.5, 1.0)  # seconds between rounds over all admins
_AWAY = (502, 503, 504)  # this admin, or its database, is unavailable
_BASE = "/api/v1"
_SYSTEM_TLS = TlsSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, str]
    body: Mapping[str, Any] | None
    headers: Mapping[str, str]


class Api:
    """The API of a cluster of admins. A request may arrive twice, so it must be idempotent."""

    def __init__(self, admins: Sequence[str], token: str, tls: TlsSettings = _SYSTEM_TLS) -> None:
        self._admins = list(admins)  # the one that answered last comes first
        self._token = token
        self._tls = tls
        self._kept: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop of that session
        self._users = 0  # calls of `open` without `close`

    async def open(self) -> None:
        """Keep connections between requests, on the running loop, until `close`."""
        self._users += 1
        if self._kept is None:
            self._kept, self._loop = self._session(), asyncio.get_running_loop()

    async def close(self) -> None:
        """Undo one `open`; the last one closes the connections."""
        self._users -= 1
        if self._users == 0 and self._kept is not None:
            kept, self._kept = self._kept, None
            await kept.close()

    async def get(self, path: str, **query: object) -> Any:
        """The body of the response to a GET.

        Raises:
            ClientError: as of `_answer`.
        """
        told = {name: str(value) for name, value in query.items() if value is not None}
        return await self._ask(_Request(method="GET", path=path, query=told, body=None, headers={}))

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        idempotency_key: str,
        headers: Mapping[str, str],
    ) -> Any:
        """The same for a POST; the key makes it idempotent."""
        headers = {**headers, "Idempotency-Key": idempotency_key}
        return await self._ask(
            _Request(method="POST", path=path, query={}, body=body, headers=headers)
        )

    async def _ask(self, request: _Request) -> Any:
        pauses = iter(_PAUSES)
        async with self._any_session() as session:
            while True:
                away: dict[str, str] = {}
                for admin in list(self._admins):
                    try:
                        answer = await self._ask_one(session, admin, request)
                    except _AdminUnavailable as reason:
                        away[admin] = str(reason)
                        continue
                    # One assignment: threads may use the client concurrently.
                    self._admins = [admin, *(each for each in self._admins if each != admin)]
                    return answer
                pause = next(pauses, None)
                if pause is None:
                    raise NoAdminError(away)
                await asyncio.sleep(pause)

    async def _ask_one(self, session: aiohttp.ClientSession, admin: str, request: _Request) -> Any:
        try:
            async with session.request(
                request.method,
                admin + _BASE + request.path,
                params=request.query,
                json=request.body,
                headers=request.headers,
                allow_redirects=False,  # the token is for this address
            ) as answer:
                text = await answer.text(errors="replace")
                status = answer.status
        except TimeoutError:
            raise _AdminUnavailable(f"no answer within {_REQUEST_SECONDS:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _AdminUnavailable(str(error) or type(error).__name__) from None
        if status in _AWAY:
            raise _AdminUnavailable(f"it answered {status}")
        return _answer(status, text)

    @asynccontextmanager
    async def _any_session(self) -> AsyncIterator[aiohttp.ClientSession]:
        if self._kept is not None and self._loop is asyncio.get_running_loop():
            yield self._kept
            return
        async with self._session() as session:
            yield session

    def _session(self) -> aiohttp.ClientSession:
        try:
            ssl = self._tls.context()
        except ConnectError as error:  # files that were there when the client was made
            raise ClientError(str(error), code="tls_files", status=0) from None
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl),
            headers={"Authorization": f"Bearer {self._token}", "User-Agent": f"tickwheel {SDK}"},
            timeout=aiohttp.ClientTimeout(total=_REQUEST_SECONDS),
        )


class _AdminUnavailable(Exception):
    """This admin cannot answer now; another one may."""


def _answer(status: int, text: str) -> Any:
    """The body of a success.

    Raises:
        TokenRefusedError, NotFoundError, ClientError: the admin refused, or this is no admin.
    """
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if 200 <= status < 300 and isinstance(body, dict):
        return body
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        raise ClientError(
            f"what answers there is no Tickwheel admin (status {status})",
            code="no_admin",
            status=status,
        )
    kind = {401: TokenRefusedError, 403: TokenRefusedError, 404: NotFoundError}.get(
        status, ClientError
    )
    raise kind(
        str(error.get("message", "")),
        code=str(error.get("code", "")),
        status=status,
        problems=[
            {name: str(value) for name, value in each.items()}
            for each in error.get("problems", ())
            if isinstance(each, dict)
        ],
    )
