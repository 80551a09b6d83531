"""Child jobs in the job form: found by what was typed, and named for people.

Somebody types or picks "executor / job". An id, as "#12", always works, and is how the form keeps a
child that its reader may not see.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from tickwheel_admin.console.job_form import ChildRow
from tickwheel_admin.domain.children import ChildLink
from tickwheel_admin.domain.errors import NotFound, Problem
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.jobs import JobItem, JobQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import EXECUTORS, JOBS

SUGGESTED_AT_MOST = 30
_SEPARATOR = " / "
_ID = re.compile(r"#([0-9]{1,15})")
_PAGE, _PAGES = 200, 20  # bounds of the search for a job of exactly this name


def text_of(item: JobItem) -> str:
    """How a job is written in the form."""
    return f"{item.executor_name}{_SEPARATOR}{item.job.config.name}"


async def suggestions(request: web.Request, text: str) -> list[str]:
    """Jobs that may be meant, which this person may run."""
    actor = actor_of(request)
    wanted = text.strip().split(_SEPARATOR, 1)[-1][:200]
    page = await request.app[JOBS].page(actor, JobQuery(text=wanted), limit=SUGGESTED_AT_MOST)
    return [
        text_of(item) for item in page.items if actor.may(Permission.OPERATE, item.job.executor_id)
    ]


async def rows_of(request: web.Request, links: Sequence[ChildLink]) -> list[ChildRow]:
    """A stored job's children as the form shows them."""
    rows = []
    for link in links:
        try:
            text = text_of((await request.app[JOBS].get(actor_of(request), link.job_id)).item)
        except NotFound:  # deleted, or not visible to this person
            text = f"#{link.job_id}"
        rows.append(ChildRow(job=text, on=link.on.value))
    return rows


async def find_children(
    request: web.Request, rows: Sequence[ChildRow]
) -> tuple[list[dict[str, Any]], list[Problem]]:
    """The raw children that the rows name, and what is wrong with the others."""
    found: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for index, row in enumerate(rows):
        ids = await _ids(request, row.job)
        if len(ids) != 1:
            template = (
                "Several executors have a job of this name; choose one of those suggested."
                if ids
                else "There is no job of this name, or you may not see it."
            )
            problems.append(
                Problem(field=f"children[{index}].job", code="child.unknown", template=template)
            )
        found.append({"job": ids[0] if ids else 1, "on": row.on})
    return found, problems


async def _ids(request: web.Request, text: str) -> list[int]:
    """Ids of the jobs that are called so; two are enough to know that it is not clear."""
    if by_id := _ID.fullmatch(text):
        return [int(by_id[1])]
    actor = actor_of(request)
    executors = {e.name: e.id for e in await request.app[EXECUTORS].list(actor)}
    before, separator, after = text.partition(_SEPARATOR)
    is_named = bool(separator) and before in executors
    name = after if is_named else text
    query = JobQuery(text=name[:200], executor_id=executors[before] if is_named else None)
    ids: list[int] = []
    cursor = None
    for _ in range(_PAGES):
        page = await request.app[JOBS].page(actor, query, cursor=cursor, limit=_PAGE)
        ids += [item.job.id for item in page.items if item.job.config.name == name]
        cursor = page.next
        if len(ids) > 1 or cursor is None:
            break
    return ids
