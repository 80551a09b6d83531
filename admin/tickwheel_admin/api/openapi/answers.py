"""What a route answers, good or bad: errors are alike everywhere, so they are declared once."""

from __future__ import annotations

from typing import Any

from tickwheel_admin.api.ndjson import NDJSON, is_list
from tickwheel_admin.api.openapi.schemas import Schemas
from tickwheel_admin.web.routes import NoContent, Route

_ERRORS = {
    400: ("BadRequest", "Malformed HTTP."),
    401: ("NotLoggedIn", "No token, or one that is unknown, expired or revoked."),
    403: ("NotAllowed", "You may see it, but your role does not allow this."),
    404: ("NotFound", "It does not exist, or you may not see it."),
    408: ("Timeout", "The body took more than 20 seconds to arrive."),
    409: ("Conflict", "Its state does not allow this, or somebody changed it first."),
    410: ("Gone", "It is not kept any more."),
    413: ("TooLarge", "The body is too large."),
    415: ("UnsupportedType", "The body is not declared as what it must be, or is compressed."),
    422: ("InvalidInput", "`problems` lists every broken rule."),
    429: ("TooMany", "Wait for `Retry-After` seconds."),
    431: ("HeaderTooLarge", "The request line or a header is longer than 8 KiB."),
    500: ("Internal", "A bug of Tickwheel."),
    503: ("Unavailable", "The database does not answer; nothing was changed. Repeat it."),
}
_ALWAYS = (400, 401, 403, 422, 429, 431, 500, 503)
_WITH_BODY = (408, 413, 415)
_RETRY_AFTER = {429, 503}
_CORRELATION = {
    "X-Correlation-Id": {
        "description": "The log has details under it.",
        "schema": {"type": "string"},
    }
}
_TEXT = {"type": "string"}


def error_components() -> dict[str, Any]:
    """The errors, by name."""
    return {name: _error(status) for status, (name, _) in _ERRORS.items()}


def statuses_of(route: Route) -> list[int]:
    """The errors that it may answer with."""
    statuses = {*_ALWAYS}
    if "{" in route.path or route.method != "GET" or route.query:
        statuses.add(404)
    if route.body is not None:
        statuses.update(_WITH_BODY)
    if route.method != "GET" or route.conflicts:
        statuses.add(409)
    if route.gone:
        statuses.add(410)
    return sorted(statuses)


def answers_of(route: Route, schemas: Schemas) -> dict[str, Any]:
    """All of them, by status."""
    answers: dict[str, Any] = {}
    if route.answers is NoContent:
        answers["204"] = {"description": "Done."}
    else:
        answers[str(route.status)] = _good(route, schemas)
    for status in statuses_of(route):
        name, description = _ERRORS[status]
        told = {409: route.conflicts, 410: route.gone}.get(status)
        if told:
            codes = ", ".join(f"`{code}`" for code in told)
            answers[str(status)] = _error(status) | {
                "description": f"{description} Codes: {codes}."
            }
        else:
            answers[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return answers


def _good(route: Route, schemas: Schemas) -> dict[str, Any]:
    good: dict[str, Any] = {
        "description": {200: "Done.", 201: "Made.", 202: "Accepted."}[route.status],
        "content": {
            media_type: {"schema": schemas.of(route.answers) if "json" in media_type else _TEXT}
            for media_type in route.media_types
        },
    }
    if is_list(route):
        good["content"][NDJSON] = {"schema": _TEXT | {"description": "All items, one in a line."}}
    if route.status in (201, 202):
        good["headers"] = {
            "Location": {"description": "Where it is.", "schema": {"type": "string"}}
        }
    return good


def _error(status: int) -> dict[str, Any]:
    headers: dict[str, Any] = dict(_CORRELATION)
    if status in _RETRY_AFTER:
        headers["Retry-After"] = {
            "description": "Seconds.",
            "schema": {"type": "integer"},
        }
    return {
        "description": _ERRORS[status][1],
        "headers": headers,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}},
    }
