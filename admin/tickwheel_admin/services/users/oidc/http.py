"""Requests to the OpenID provider: in bounded time and size, and never on to another address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

MAX_ANSWER_BYTES = 256 * 1024
TIMES = aiohttp.ClientTimeout(total=10, connect=5)


class ProviderAway(Exception):
    """The provider does not answer, or only with errors of its own; later it may."""


class ProviderUnusable(Exception):
    """The provider answers what cannot be used: somebody must change its settings or ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderAnswer:
    """What the provider said."""

    status: int  # 200..499
    content: Mapping[str, Any]  # empty when it was no JSON object


async def ask(
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> ProviderAnswer:
    """GET, or POST of a form.

    Raises:
        ProviderAway: no whole answer in 10 s, or a status from 500 on.
    """
    # Logins are seldom: a session for each request has nothing to be closed at the end.
    async with aiohttp.ClientSession(timeout=TIMES, auto_decompress=False) as session:
        try:
            async with session.request(
                "GET" if form is None else "POST",
                url,
                data=form,
                # Not packed: a small answer must not unpack to a large one.
                headers={"Accept": "application/json", "Accept-Encoding": "identity"}
                | dict(headers or {}),
                allow_redirects=False,
            ) as response:
                body = await _read(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ProviderAway(f"{url}: {type(error).__name__}: {error}"[:300]) from error
    if response.status >= 500:
        raise ProviderAway(f"{url}: status {response.status}")
    return ProviderAnswer(status=response.status, content=_json(body))


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            return b""  # as good as none; the connection is closed with the session
    return bytes(body)


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
