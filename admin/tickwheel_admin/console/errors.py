"""What people see when a request cannot be answered: the same frame, what happened, a way on."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.i18n import gettext as _
from tickwheel_admin.console.reader import READER, set_reader
from tickwheel_admin.console.rendering import RENDERER, is_scripted
from tickwheel_admin.domain.errors import UserError
from tickwheel_admin.web.errors import describe
from tickwheel_admin.web.identity import actor_or_none


def show_error(
    request: web.Request, error: UserError | web.HTTPException, correlation_id: str
) -> web.Response:
    """The page for an error; for a script, a line of text that it shows as a toast."""
    set_reader(request)
    _code, message = describe(error, READER.get().language)
    if is_scripted(request) or "X-Block" in request.headers:
        return web.Response(status=error.status, text=message)
    template = "error.html" if actor_or_none(request) is not None else "error_alone.html"
    return request.app[RENDERER].page(
        request,
        template,
        {
            "status": error.status,
            "heading": _heading(error.status),
            "message": message,
            "correlation_id": correlation_id if error.status >= 500 else "",
        },
        status=error.status,
    )


def _heading(status: int) -> str:
    return {
        401: _("You are not logged in"),
        403: _("You may not do this"),
        404: _("Not found"),
        405: _("This cannot be done this way"),
        409: _("This changed in the meantime"),
        429: _("Too many attempts"),
        503: _("The database does not answer"),
    }.get(status, _("Something went wrong") if status >= 500 else _("This cannot be done"))
