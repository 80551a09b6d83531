"""The list of runs and its filter, which lives in the address."""

from __future__ import annotations

from aiohttp import hdrs, web

from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.local_time import local_text
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import BLOCK_HEADER, go_to, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.lists.filter_box import FILTER_FORM, FilterTerms, with_address
from tickwheel_admin.console.lists.tabs import ListHead, list_address, list_head
from tickwheel_admin.console.runs.filter import fields_of, group_name
from tickwheel_admin.console.runs.filter_text import read_run_text, run_filter_box
from tickwheel_admin.console.runs.periods import PERIODS, period_name
from tickwheel_admin.domain.errors import NotFound
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.saved_view import ListPage
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.lists.paging import Page
from tickwheel_admin.services.runs.service import RunGroup, RunItem, RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

TABS = (
    RunGroup.ACTIVE, RunState.QUEUED, RunState.RUNNING, RunState.SUCCEEDED, RunGroup.FAILED_ANY,
    RunState.CANCELLED, RunState.SKIPPED,
)  # fmt: skip

routes = Routes()


@routes.get("/runs", permission=Permission.VIEW)
async def list_runs(request: web.Request) -> web.Response:
    actor = actor_of(request)
    set_locale(request)
    typed, query = await read_run_text(request)
    address = list_address("runs", typed.text)
    is_whole = BLOCK_HEADER not in request.headers
    if is_whole and not typed.problems and set(request.query) - {"q", "cursor"}:
        # An older address, or fields of a form: everything is said by the filter from here on.
        return web.Response(status=303, headers={hdrs.LOCATION: address})
    if (run_id := await _run_asked_for(request, typed)) is not None:
        return go_to(request, f"/runs/{run_id}")
    page: Page[RunItem] = Page(items=[], next=None)
    if not typed.problems:
        page = await request.app[SERVICES].runs.page(
            actor, query, cursor=request.query.get("cursor")
        )
    response = await render(
        request,
        "runs/list.html",
        {
            "is_whole": is_whole,
            "runs": page.items,
            "page": page,
            "waiting": await request.app[SERVICES].runs.why_they_wait(page.items),
            "query_values": query,
            "box": run_filter_box(typed, me=actor.name),
            "head": await _head(request, typed, query),
            "periods": _periods(typed, query),
            "without_period": _without_period(typed).text,
            "from_local": "" if typed.one("last") else local_text(query.from_at),
            "to_local": local_text(query.to_at),
            "filter_fields": fields_of(query),
            "is_filtered": bool(typed.terms),
            "may_operate": actor.may_anywhere(Permission.OPERATE),
            "may_purge": actor.may_anywhere(Permission.ADMINISTER),
        },
    )
    return with_address(request, response, address)


async def _run_asked_for(request: web.Request, typed: FilterTerms) -> int | None:
    """The run whose number is all that the filter says, if there is one that the reader sees."""
    if len(typed.terms) != 1 or request.headers.get("HX-Trigger") not in (None, FILTER_FORM):
        return None
    run_id = whole_number(typed.words.removeprefix("#"))
    if run_id is None:
        return None
    try:
        await request.app[SERVICES].runs.get(actor_of(request), run_id)
    except NotFound:
        return None
    return run_id


async def _head(request: web.Request, typed: FilterTerms, query: RunQuery) -> ListHead:
    # Numbers of tabs are read by state and time; under another filter they would have to look far.
    alone = RunQuery(state=query.state, from_at=query.from_at, to_at=query.to_at)
    numbers = (
        await request.app[SERVICES].list_counts.runs(
            actor_of(request), from_at=query.from_at, to_at=query.to_at
        )
        if query == alone and not typed.problems
        else {}
    )
    states = [(tab.value, group_name(tab.value)) for tab in TABS]
    return await list_head(
        request,
        ListPage.RUNS,
        typed,
        states=[("", _("All")), *states],
        bad=RunGroup.FAILED_ANY,
        numbers=numbers,
    )


def _without_period(typed: FilterTerms) -> FilterTerms:
    kept = [term for term in typed.terms if term.key not in ("from", "to", "last")]
    other = FilterTerms("", {}, ())
    other.terms = kept
    return other


def _periods(typed: FilterTerms, query: RunQuery) -> list[tuple[str, str, bool]]:
    """Names, addresses, and whether the list is of that period."""
    rest, last = _without_period(typed), typed.one("last")
    any_time = (
        _("Any time"),
        list_address("runs", rest.text),
        query.from_at is None and query.to_at is None,
    )
    return [
        any_time,
        *(
            (
                period_name(period),
                list_address("runs", rest.with_term("last", period)),
                period == last,
            )
            for period in PERIODS
        ),
    ]
