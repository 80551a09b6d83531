"""One message for the next page, where no script can show it: a cookie that holds only a code."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.i18n import gettext as _

_COOKIE = "flash"


def set_flash(response: web.StreamResponse, code: str) -> None:
    """Let the next page say this."""
    response.set_cookie(_COOKIE, code, max_age=60, path="/", httponly=True, samesite="Lax")


def take_flash(request: web.Request, response: web.StreamResponse) -> str | None:
    """What the page before wanted to say; said once. Codes that are not ours say nothing."""
    code = request.cookies.get(_COOKIE)
    if not code:
        return None
    response.del_cookie(_COOKIE, path="/")
    return {
        "job.created": _("The job was added."),
        "job.saved": _("The job was saved."),
        "job.deleted": _("The job was deleted."),
        "job.paused": _("The job is paused."),
        "job.resumed": _("The job is on again."),
        "run.requested": _("A new run was added."),
        "run.cancelled": _("The run is being cancelled."),
        "password.changed": _("Your password was changed."),
        "executor.deleted": _("The executor was deleted."),
    }.get(code)
