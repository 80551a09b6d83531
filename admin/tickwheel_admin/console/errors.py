"""What people see when a request cannot be answered: the same frame, what happened, a way on."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, set_locale
from tickwheel_admin.console.frame.rendering import RENDERER, is_scripted
from tickwheel_admin.console.users.labels import role_name
from tickwheel_admin.domain.errors import Conflict, NotAllowed, NotFound, UserError
from tickwheel_admin.domain.users.user import Permission, Role
from tickwheel_admin.web.errors import describe
from tickwheel_admin.web.identity import actor_or_none

OVER_HEADER = "X-Over"  # what a request was about is gone, or has ended
# An open dialog asks whether that is so. "Yes" is an answer and no error, which browsers would log.
ASKS_OVER_HEADER = "X-Asks-Over"


def show_error(
    request: web.Request, error: UserError | web.HTTPException, correlation_id: str
) -> web.Response:
    """The page for an error; for a script, a line of text that it shows as a toast."""
    set_locale(request)
    message = _refusal(error) or describe(error, REQUEST_LOCALE.get().language)[1]
    if is_scripted(request) or "X-Block" in request.headers:
        # A dialog about something that is gone, or has ended, closes itself.
        over = _is_over(error)
        status = 200 if over and ASKS_OVER_HEADER in request.headers else error.status
        headers = {OVER_HEADER: "yes"} if over else {}
        return web.Response(status=status, text=message, headers=headers)
    template = (
        "frame/error.html" if actor_or_none(request) is not None else "frame/error_alone.html"
    )
    return request.app[RENDERER].page(
        request,
        template,
        {
            "status": error.status,
            "heading": _heading(error.status),
            "look": _LOOKS.get(error.status, ("bad", "warning")),
            "message": message,
            "correlation_id": correlation_id if error.status >= 500 else "",
        },
        status=error.status,
    )


# Conflicts that no other try of the same action can get around.
_OVER = frozenset({"job.deleted", "node.ended", "run.ended", "run.not_ended", "run.not_stopping"})


def _is_over(error: UserError | web.HTTPException) -> bool:
    return isinstance(error, NotFound) or (isinstance(error, Conflict) and error.code in _OVER)


_LOOKS = {  # tone and icon of what was not wrong, only not so
    403: ("warn", "lock"),
    404: ("idle", "search"),
    429: ("warn", "clock"),
    503: ("bad", "offline"),
}


def _refusal(error: UserError | web.HTTPException) -> str | None:
    """Which role it takes: people know their roles, not the permissions that programs are told."""
    if not isinstance(error, NotAllowed):
        return None
    role = {
        Permission.VIEW: Role.VIEWER,
        Permission.OPERATE: Role.OPERATOR,
        Permission.DEVELOP: Role.DEVELOPER,
        Permission.ADMINISTER: Role.ADMIN,
    }.get(error.params.get("permission", ""))
    if role is None:
        return None
    return _("This takes the role “%(role)s”, which you do not have here.") % {
        "role": role_name(role)
    }


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
