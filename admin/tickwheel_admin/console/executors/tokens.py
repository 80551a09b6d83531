"""Tokens of executors: they are shown once, replaced, and the former one is revoked."""

from __future__ import annotations

from aiohttp import web

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import done_or_back, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.executors.service import NewExecutor
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.routes import Routes

TOKEN = "/executors/{executor_id:[0-9]{1,18}}/token"  # noqa: S105 - an address
HOUR, DAY = 3_600, 86_400

routes = Routes()


@routes.get(TOKEN, permission=Permission.ADMINISTER)
async def ask_rotation(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].executors.get(actor_of(request), _executor_id(request))
    set_locale(request)
    return await render(
        request, "executors/token_rotate.html", {"executor": detail.item, "overlaps": _overlaps()}
    )


@routes.post(TOKEN, permission=Permission.ADMINISTER)
async def rotate_token(request: web.Request) -> web.Response:
    actor = actor_of(request)
    form = await read_form(request)
    made = await request.app[SERVICES].executors.rotate_token(
        actor,
        _executor_id(request),
        overlap_seconds=whole_number(form.get("overlap")) or 0,
    )
    detail = await request.app[SERVICES].executors.get(actor, _executor_id(request))
    return await token_page(request, made, is_new=False, old_until=detail.item.old_token_until)


@routes.get(f"{TOKEN}/revoke", permission=Permission.ADMINISTER)
async def ask_revocation(request: web.Request) -> web.Response:
    detail = await request.app[SERVICES].executors.get(actor_of(request), _executor_id(request))
    return await render(request, "executors/token_revoke.html", {"executor": detail.item})


@routes.post(f"{TOKEN}/revoke", permission=Permission.ADMINISTER)
async def revoke_old_token(request: web.Request) -> web.Response:
    await request.app[SERVICES].executors.revoke_old_token(actor_of(request), _executor_id(request))
    address = f"/executors/{_executor_id(request)}"
    return done_or_back(request, address, "executor.token_revoked", topics=("nodes",))


async def token_page(
    request: web.Request, made: NewExecutor, *, is_new: bool, old_until: int | None = None
) -> web.Response:
    """The only page that ever shows a token; it cannot be fetched again.

    Args:
        old_until: until when the former token works as well; None: it does not.
    """
    return await render(
        request,
        "executors/token.html",
        {
            "made": made,
            "is_new": is_new,
            "old_until": old_until,
            "admin_url": request.app[CONFIG].public_url,
        },
    )


def _overlaps() -> list[tuple[int, str, str]]:
    """For how long the former token may work as well: seconds, name, what it means."""
    return [
        (
            DAY,
            _("For one day"),
            _("Time to give every node the new one; nothing is interrupted."),
        ),
        (7 * DAY, _("For seven days"), _("For services that are seldom deployed.")),
        (HOUR, _("For one hour"), _("For services that are deployed in one go.")),
        (
            0,
            _("Not at all"),
            _(
                "For a token that got into the wrong hands: nodes with the old one are sent away"
                " now."
            ),
        ),
    ]


def _executor_id(request: web.Request) -> int:
    return int(request.match_info["executor_id"])
