"""The list of runs and its filter, which lives in the address."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from aiohttp import hdrs, web

from tickwheel_admin.console.job_names import ids_of, suggestions, text_of_id, unclear
from tickwheel_admin.console.labels import origin_name
from tickwheel_admin.console.reader import set_reader
from tickwheel_admin.console.rendering import BLOCK_HEADER, render
from tickwheel_admin.console.run_filter import (
    LAST,
    fields_of,
    group_name,
    instant_of,
    local_text,
    node_name,
    nodes_of,
    read_filter,
)
from tickwheel_admin.domain.errors import Problem
from tickwheel_admin.domain.run import Origin, RunState
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.paging import Page
from tickwheel_admin.services.runs import RunGroup, RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import EXECUTORS, RUNS
from tickwheel_admin.web.routes import Routes

TABS = (
    RunGroup.ACTIVE, RunState.QUEUED, RunState.RUNNING, RunState.SUCCEEDED, RunGroup.FAILED_ANY,
    RunState.CANCELLED, RunState.SKIPPED,
)  # fmt: skip
# What people fill in, and the name that the same has in an address.
_TYPED = {"job_name": "job", "from_local": "from", "to_local": "to"}
_KEPT = frozenset({"state", "trigger"})  # what the form has no field for, but keeps

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The fields of the filter as they are shown."""

    job_name: str
    from_local: str
    to_local: str
    problem: Problem | None  # with the job's name


@routes.get("/runs", permission=Permission.VIEW)
async def list_runs(request: web.Request) -> web.Response:
    actor = actor_of(request)
    set_reader(request)
    problem = None
    if any(name in request.query for name in _TYPED):
        fields, problem = await _as_address(request)
        if problem is None:
            address = f"/runs?{urlencode(fields)}" if fields else "/runs"
            return web.Response(status=303, headers={hdrs.LOCATION: address})
    query = read_filter(request.query)
    page = (
        await request.app[RUNS].page(actor, query, cursor=request.query.get("cursor"))
        if problem is None
        else Page(items=[], next=None)
    )
    is_whole = request.headers.get(BLOCK_HEADER) != "rows"
    return await render(
        request,
        "runs.html",
        {
            "runs": page.items,
            "waiting": await request.app[RUNS].why_they_wait(page.items),
            "next_cursor": page.next,
            "tabs": [(tab.value, group_name(tab.value)) for tab in TABS],
            "state": query.state or "",
            "query_values": query,
            "filter_fields": fields_of(query),
            "filled": await _filled(request, query, problem) if is_whole else None,
            "kept": [(name, value) for name, value in fields_of(query) if name in _KEPT],
            "last": request.query.get("last", ""),
            "periods": LAST,
            "executors": await request.app[EXECUTORS].names(actor) if is_whole else [],
            "nodes": await _nodes(request, query) if is_whole else [],
            "origins": [(origin.value, origin_name(origin)) for origin in Origin],
            "suggested": await suggestions(request, "") if is_whole else [],
            "is_filtered": query != RunQuery() or problem is not None,
            "may_operate": actor.may_anywhere(Permission.OPERATE),
            "may_purge": actor.may_anywhere(Permission.ADMINISTER),
        },
    )


@routes.get("/runs/job-names", permission=Permission.VIEW)
async def suggest_jobs(request: web.Request) -> web.Response:
    """Options for the field of a job's name that is being typed into."""
    texts = await suggestions(request, request.query.get("job_name", ""))
    return await render(request, "child_suggestions.html", {"suggested": texts})


async def _as_address(request: web.Request) -> tuple[list[tuple[str, str]], Problem | None]:
    """The filter with what was filled in said as addresses say it; or what is wrong with it."""
    values = {name: text for name, text in request.query.items() if name != "cursor"}
    if name := values.pop("job_name", "").strip():
        found = await ids_of(request, name)
        if len(found) != 1:
            return [], unclear("job_name", found)
        values["job"] = str(found[0])
    else:
        values.pop("job", None)
    for field in ("from_local", "to_local"):
        at = instant_of(values.pop(field, ""))
        values.pop(_TYPED[field], None)
        if at is not None:
            values[_TYPED[field]] = str(at)
            values.pop("last", None)
    last = [("last", values["last"])] if values.get("last") in LAST else []
    return [*(pair for pair in values.items() if pair[0] != "last" and pair[1]), *last], None


async def _filled(request: web.Request, query: RunQuery, problem: Problem | None) -> Filled:
    if problem is not None:
        values = request.query
        return Filled(
            job_name=values.get("job_name", ""),
            from_local=values.get("from_local", ""),
            to_local=values.get("to_local", ""),
            problem=problem,
        )
    by_last = "last" in request.query and query.to_at is None and "from" not in request.query
    return Filled(
        job_name="" if query.job_id is None else await text_of_id(request, query.job_id),
        from_local="" if by_last else local_text(query.from_at),
        to_local=local_text(query.to_at),
        problem=None,
    )


async def _nodes(request: web.Request, query: RunQuery) -> list[tuple[int, str]]:
    """The nodes to choose from: of the chosen executor, and the chosen one."""
    nodes = [] if query.executor_id is None else await nodes_of(request, query.executor_id)
    if query.node_id is not None and all(node_id != query.node_id for node_id, _ in nodes):
        nodes.append((query.node_id, await node_name(request, query)))
    return nodes
