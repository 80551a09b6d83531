"""The list of jobs."""

from __future__ import annotations

from aiohttp import hdrs, web

from tickwheel_admin.console.frame.formatting import number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import BLOCK_HEADER, render
from tickwheel_admin.console.jobs.filter import job_filter_box, read_job_filter
from tickwheel_admin.console.lists.filter_box import FilterTerms, with_address
from tickwheel_admin.console.lists.tabs import ListHead, list_address, list_head
from tickwheel_admin.domain.users.saved_view import ListPage
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.service import JobItem, JobQuery, JobSort, JobView
from tickwheel_admin.services.lists.paging import Page
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

DENSITY_COOKIE = "tickwheel_density"
_OLDER = frozenset({"view", "executor"})  # what addresses of before filtered by

routes = Routes()


@routes.get("/jobs", permission=Permission.VIEW)
async def list_jobs(request: web.Request) -> web.Response:
    actor = actor_of(request)
    set_locale(request)
    executors = await request.app[SERVICES].executors.names(actor)
    typed, query = read_job_filter(request.query, executors)
    sort = "" if query.sort == JobSort.NAME else query.sort
    address = list_address("jobs", typed.text, sort=sort)
    is_whole = BLOCK_HEADER not in request.headers
    if is_whole and not _OLDER.isdisjoint(request.query):
        return web.Response(status=303, headers={hdrs.LOCATION: address})
    page: Page[JobItem] = Page(items=[], next=None)
    if not typed.problems:
        page = await request.app[SERVICES].jobs.page(
            actor, query, cursor=request.query.get("cursor")
        )
    total = ""
    if page.next or page.previous:
        matching = await request.app[SERVICES].list_counts.matching(actor, query)
        # Counts of jobs that fail and of what changes meanwhile can be behind what is shown.
        total = number(max(matching.jobs, len(page.items))) + "+" * matching.capped
    response = await render(
        request,
        "jobs/list.html",
        {
            "is_whole": is_whole,
            "jobs": page.items,
            "parents": await request.app[SERVICES].job_parents.of_each(
                actor, [item.job.id for item in page.items if not item.triggers]
            ),
            "page": page,
            "total": total,
            "query_values": query,
            "box": job_filter_box(typed),
            "head": await _head(request, typed, query, sort),
            "sorts": _sorts(typed.text, query.sort),
            "sort": sort,
            "is_compact": request.cookies.get(DENSITY_COOKIE) == "compact",
            "density_cookie": DENSITY_COOKIE,
            "executors": executors,
            "is_filtered": bool(typed.terms),
            "may_operate": actor.may_anywhere(Permission.OPERATE),
            "may_develop": actor.may_anywhere(Permission.DEVELOP),
        },
    )
    return with_address(request, response, address)


async def _head(request: web.Request, typed: FilterTerms, query: JobQuery, sort: str) -> ListHead:
    # Numbers under a filter would have to look at every job, and others would say what is not so.
    alone = query == JobQuery(view=query.view, sort=query.sort) and not typed.problems
    numbers = await request.app[SERVICES].list_counts.jobs(actor_of(request)) if alone else {}
    return await list_head(
        request,
        ListPage.JOBS,
        typed,
        states=[
            ("", _("All")),
            (JobView.FAILING, _("Failing")),
            (JobView.RUNNING, _("Running")),
            (JobView.PAUSED, _("Paused")),
        ],
        bad=JobView.FAILING,
        numbers={"" if view == JobView.ALL else view: n for view, n in numbers.items()},
        sort=sort,
    )


def _sorts(text: str, current: str) -> list[tuple[str, str, bool]]:
    """The orders: names, addresses, and whether the list is in it."""
    names = {
        JobSort.NAME: _("Name, A to Z"),
        JobSort.NAME_DOWN: _("Name, Z to A"),
        JobSort.CHANGED: _("Changed last"),
        JobSort.NEXT_FIRE: _("Next fire, soonest first"),
        JobSort.FAILURE_RATE: _("Failure rate, highest first"),
        JobSort.DURATION: _("Usual duration, longest first"),
    }
    return [
        (
            name,
            list_address("jobs", text, sort="" if sort is JobSort.NAME else sort),
            sort == current,
        )
        for sort, name in names.items()
    ]
