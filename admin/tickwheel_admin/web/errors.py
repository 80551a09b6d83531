"""Errors as answers: JSON for programs, a page for people, never a trace."""

from __future__ import annotations

import json
from typing import Any

import structlog
from aiohttp import hdrs, web

from tickwheel_admin.domain.errors import InvalidInput, Problem, TooMany, Unavailable, UserError
from tickwheel_admin.web.i18n import LANGUAGE_TAGS, language_of, translate
from tickwheel_admin.web.keys import ERROR_PAGE, UNAVAILABLE_WHEN
from tickwheel_admin.web.request_log import correlation_id_of
from tickwheel_admin.web.routes import Handler, route_of

log = structlog.get_logger(__name__)

N_ = str  # marks message ids for extraction

# Codes and texts of what aiohttp itself answers, and of what went wrong here.
_HTTP_ERRORS: dict[int, tuple[str, str]] = {
    400: ("bad_request", N_("The request cannot be understood.")),
    403: ("not_allowed", N_("This is not allowed.")),
    404: ("not_found", N_("There is nothing here, or you may not see it.")),
    405: ("method_not_allowed", N_("This address does not take that method.")),
    408: ("timeout", N_("The request took too long to arrive.")),
    413: ("too_large", N_("The request is larger than 1 MiB.")),
    415: ("unsupported_type", N_("Send JSON, with Content-Type: application/json.")),
    417: ("not_expected", N_("The only thing to expect here is 100-continue.")),
    431: ("header_too_large", N_("The request line or a header is longer than 8 KiB.")),
    500: ("internal", N_("Something went wrong here. The log has it under the correlation id.")),
}


def unavailable() -> Unavailable:
    """What callers are told while the database is away."""
    return Unavailable(
        "database.unavailable",
        N_("The database does not answer. Nothing was changed; try again in a moment."),
    )


_BEGUN: web.RequestKey[bool] = web.RequestKey("begun", bool)


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler raises into an answer."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            return error
        return _answered(request, error)
    except UserError as error:
        return _answered(request, error)
    except request.app[UNAVAILABLE_WHEN]:
        # Already in the log, where the repeats gave up.
        return _answered(request, unavailable())
    except ConnectionResetError:
        raise  # the client went away: there is nobody to answer
    except Exception:
        # The last resort: whatever it was, the person gets an answer and the log the trace.
        log.exception("http.failed", method=request.method, path=request.rel_url.raw_path)
        return _answered(request, web.HTTPInternalServerError())


async def note_begun(request: web.Request, _response: web.StreamResponse) -> None:
    """For `app.on_response_prepare`: from here on no error can be answered any more."""
    request[_BEGUN] = True


def _answered(request: web.Request, error: UserError | web.HTTPException) -> web.Response:
    if _BEGUN in request:
        # Half a stream is out already; cutting it off is the only honest end.
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("failed while streaming") from None
    return answer_error(request, error)


def answer_error(request: web.Request, error: UserError | web.HTTPException) -> web.Response:
    if wants_json(request) or request.headers.get(hdrs.ACCEPT) == "text/event-stream":
        # No page for a stream that is refused: nobody would see it, and browsers come back soon.
        response = _json_answer(request, error)
        response.set_status(error.status)
    elif ERROR_PAGE in request.app:
        response = request.app[ERROR_PAGE](request, error, correlation_id_of(request))
    else:
        _code, message = describe(error, language_of(request))
        response = web.Response(status=error.status, text=message)
    if isinstance(error, TooMany):
        response.headers[hdrs.RETRY_AFTER] = str(error.retry_after_seconds)
    elif isinstance(error, Unavailable):
        response.headers[hdrs.RETRY_AFTER] = "5"
    elif hdrs.ALLOW in getattr(error, "headers", {}):
        response.headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]  # type: ignore[union-attr]
    if error.status in (408, 413):
        response.force_close()  # the rest of the body is not wanted
    return response


def wants_json(request: web.Request) -> bool:
    """Whether a program asks."""
    route = route_of(request)
    return route.api if route is not None else request.path.startswith("/api/")


def describe(error: UserError | web.HTTPException, language: str) -> tuple[str, str]:
    """Stable code and text in the reader's language."""
    if isinstance(error, InvalidInput):
        return error.code, translate(N_("Some fields cannot be taken as they are."), {}, language)
    if isinstance(error, UserError):
        return error.code, translate(error.template, error.params, language)
    code, template = _http_error(error.status)
    return code, translate(template, {}, language)


def error_view(error: UserError | web.HTTPException, language: str) -> dict[str, Any]:
    """An error as programs read it."""
    code, message = describe(error, language)
    problems: list[dict[str, Any]] = []
    if isinstance(error, InvalidInput):
        problems = [problem_view(problem, language) for problem in error.problems]
    return {"code": code, "message": message, "problems": problems}


def problem_view(problem: Problem, language: str) -> dict[str, Any]:
    """One broken rule as programs read it."""
    view = {
        "field": problem.field,
        "code": problem.code,
        "message": translate(problem.template, problem.params, language),
    }
    return view | ({"line": problem.params["line"]} if "line" in problem.params else {})


def _json_answer(request: web.Request, error: UserError | web.HTTPException) -> web.Response:
    language = language_of(request)
    body = error_view(error, language) | {"correlation_id": correlation_id_of(request)}
    return _json_response(error.status, body, language)


def json_refusal(status: int, correlation_id: str, language: str) -> web.Response:
    """What aiohttp refused, as an answer, where there is no request to ask for more."""
    code, template = _http_error(status)
    message = translate(template, {}, language)
    body = {"code": code, "message": message, "problems": [], "correlation_id": correlation_id}
    return _json_response(status, body, language)


def _http_error(status: int) -> tuple[str, str]:
    return _HTTP_ERRORS.get(status, _HTTP_ERRORS[500 if status >= 500 else 400])


def _json_response(status: int, body: dict[str, Any], language: str) -> web.Response:
    return web.json_response(
        {"error": body},
        status=status,
        headers={hdrs.CONTENT_LANGUAGE: LANGUAGE_TAGS[language], hdrs.VARY: "Accept-Language"},
        dumps=lambda value: json.dumps(value, ensure_ascii=False),
    )
