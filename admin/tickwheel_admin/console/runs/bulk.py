"""Cancelling or retrying many runs: those that were selected, or all that match a filter.

What matches is done in steps of bounded size. Each answer says how far it is and, while there is
more, holds the form of the next step, which the page's script sends by itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from aiohttp import web
from multidict import MultiMapping

from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import new_request_key, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.lists.bulk_progress import progress_so_far
from tickwheel_admin.console.runs.filter import fields_of, in_words, read_filter
from tickwheel_admin.console.runs.page import retry_revision
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.runs.service import Bulk, Matching, RetryRevision, RunGroup, RunQuery
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.redirects import safe_next
from tickwheel_admin.web.routes import Routes

_MEANT = {"cancel": RunGroup.ACTIVE, "retry": RunGroup.FAILED_ANY}

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBulkRequest:
    """What is to be done, and with which runs."""

    doing: str  # "cancel" or "retry"
    run_ids: tuple[int, ...]
    query: RunQuery | None  # all that match it; None: those of the ids
    failed_shards_only: bool
    revision: RetryRevision | None
    include_retried: bool
    back: str


@routes.get("/runs/bulk", permission=Permission.OPERATE)
async def ask_bulk(request: web.Request) -> web.Response:
    set_locale(request)
    asked = _asked(request.query)
    matching = Matching(len(asked.run_ids), False)
    if asked.query is not None:
        matching = await request.app[SERVICES].runs.count_matching(actor_of(request), asked.query)
    return await _page(request, asked, {"request_key": new_request_key(), "matching": matching})


@routes.post("/runs/bulk", permission=Permission.OPERATE)
async def do_bulk(request: web.Request) -> web.Response:
    form = await read_form(request)
    if form.get("do") not in _MEANT:  # never something else than was meant
        raise web.HTTPBadRequest
    asked, key = _asked(form), form.get("request_key") or new_request_key()
    bulk = await _step(request, asked, key=key, cursor=form.get("cursor") or None)
    told = progress_so_far(form, key=key, done=bulk.done, skipped=bulk.skipped, cursor=bulk.next)
    response = await _page(request, asked, {"told": told})
    response.headers["HX-Trigger"] = json.dumps({"live:runs": None, "live:stats": None})
    return response


async def _step(
    request: web.Request, asked: RunBulkRequest, *, key: str, cursor: str | None
) -> Bulk:
    runs, actor = request.app[SERVICES].runs, actor_of(request)
    if asked.query is None:
        if not asked.run_ids:
            return Bulk(runs=[], skipped={})
        if asked.doing == "cancel":
            return await runs.cancel_many(actor, asked.run_ids)
        return await runs.retry_many(
            actor,
            asked.run_ids,
            request_key=key,
            failed_shards_only=asked.failed_shards_only,
            revision=asked.revision,
            include_retried=asked.include_retried,
        )
    if asked.doing == "cancel":
        return await runs.cancel_matching(actor, asked.query, cursor=cursor)
    return await runs.retry_matching(
        actor,
        asked.query,
        request_key=key,
        cursor=cursor,
        failed_shards_only=asked.failed_shards_only,
        revision=asked.revision,
        include_retried=asked.include_retried,
    )


async def _page(
    request: web.Request, asked: RunBulkRequest, context: dict[str, Any]
) -> web.Response:
    set_locale(request)
    fields = [("do", asked.doing), ("back", asked.back)]
    if asked.query is None:
        fields += [("run", str(run_id)) for run_id in asked.run_ids]
    else:
        fields += [("all", "yes"), *fields_of(asked.query)]
    values = {
        "asked": asked,
        "fields": fields,
        "words": [] if asked.query is None else await in_words(request, asked.query),
        "told": None,
    }
    return await render(request, "runs/bulk.html", values | context, block="dialog")


def _asked(values: MultiMapping[str]) -> RunBulkRequest:
    doing = "retry" if values.get("do") == "retry" else "cancel"
    everything = values.get("all") == "yes"
    query = read_filter(values) if everything else None
    if query is not None and query.state is None:  # as the use case means it, and so to be said
        query = replace(query, state=_MEANT[doing])
    ids = (whole_number(text) for text in values.getall("run", []))
    return RunBulkRequest(
        doing=doing,
        run_ids=() if everything else tuple(dict.fromkeys(i for i in ids if i is not None)),
        query=query,
        failed_shards_only=values.get("failed_shards_only") == "yes",
        revision=retry_revision(values),
        include_retried=values.get("include_retried") == "yes",
        back=safe_next(values.get("back"), default="/runs"),
    )
