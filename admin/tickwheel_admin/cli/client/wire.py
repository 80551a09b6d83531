"""What is sent to an admin, and what its errors mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tickwheel_admin.cli.client.errors import ApiRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request, to whichever admin it goes."""

    method: str
    path: str  # with the query
    body: bytes | None
    headers: Mapping[str, str]
    is_repeatable: bool  # whether arriving twice does what arriving once does


def refusal(status: int, error: Mapping[str, Any]) -> ApiRefused:
    """The failure that stands for an error of the API."""
    return ApiRefused(
        str(error.get("message", "")),
        status=status,
        code=str(error.get("code", "")),
        problems=[
            {name: str(value) for name, value in each.items()}
            for each in error.get("problems", ())
            if isinstance(each, dict)
        ],
        correlation_id=str(error.get("correlation_id", "")),
    )


def no_admin(url: str, status: int, location: str | None) -> ApiRefused:
    """The failure that stands for an answer of something else.

    Args:
        location: where it leads; never followed, as the token is for the address that was named.
    """
    hint = f"; it leads to {location}" if location else ""
    return ApiRefused(
        f"what answers at {url} is no Tickwheel admin (status {status}){hint}",
        status=status if status >= 400 else 500,
    )


def with_query(path: str, query: Mapping[str, object]) -> str:
    """The path with the parameters that are not None."""
    told = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(told)}" if told else path


def json_bytes(body: Mapping[str, Any] | None) -> bytes | None:
    """A body as it is sent."""
    return None if body is None else json.dumps(body, ensure_ascii=False).encode()


def words_of(error: Exception) -> str:
    """What went wrong between here and there, shortly."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
