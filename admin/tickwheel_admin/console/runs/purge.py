"""Purging runs: first how many would go, then deleting them in steps, with their number so far."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.formatting import length_in_words, number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import BLOCK_HEADER, render
from tickwheel_admin.console.frame.units import FormFields, whole_number
from tickwheel_admin.console.lists.job_names import JobNames, unclear
from tickwheel_admin.domain.errors import InvalidInput, NotFound, Problem
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

FIELDS = {
    "executor": "",
    "job_name": "",
    "rule": "older",  # or "newest"
    "age": "30",
    "age_unit": "d",
    "newest": "1000",
}
_PLACES = {  # what the rules call by another name
    "older_than_seconds": "age",
    "keep_newest": "newest",
    "executor_id": "executor",
    "job_id": "job_name",
}

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeRequest:
    """What was filled in, and what it means."""

    values: Mapping[str, str]
    wish: Mapping[str, int] = field(default_factory=dict)  # as `Purge.step` takes it
    problems: tuple[Problem, ...] = ()

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def problem(self, name: str) -> Problem | None:
        """What is wrong with one field."""
        return next((p for p in self.problems if _PLACES.get(p.field, p.field) == name), None)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Names and values that a form sends along to mean the same again."""
        return [(name, text) for name, text in self.values.items() if text]


@routes.get("/runs/purge", permission=Permission.ADMINISTER)
async def ask_purge(request: web.Request) -> web.Response:
    actor = actor_of(request)
    values = dict(FIELDS)
    if (job_id := whole_number(request.query.get("job"))) is not None:
        values["job_name"] = await JobNames(request.app[SERVICES], actor).text_of_id(job_id)
        values["executor"] = str(await _executor_of(request, actor, job_id) or "")
    values |= {name: request.query[name] for name in FIELDS if name in request.query}
    if not values["executor"] and not actor.may(Permission.ADMINISTER):
        executors = await request.app[SERVICES].executors.names(actor)
        own = [e.id for e in executors if actor.may(Permission.ADMINISTER, e.id)]
        values["executor"] = str(own[0]) if own else ""
    asked = await _read(request, actor, values)
    return await _page(request, actor, asked)


@routes.post("/runs/purge", permission=Permission.ADMINISTER)
async def purge(request: web.Request) -> web.Response:
    form = await read_form(request)
    actor = actor_of(request)
    asked = await _read(request, actor, {name: form.get(name, "") for name in FIELDS})
    if asked.problems:
        return await _page(request, actor, asked)
    try:
        done = await request.app[SERVICES].purge.step(
            actor, cursor=form.get("cursor") or None, **asked.wish
        )
    except InvalidInput as error:
        refused = PurgeRequest(values=asked.values, problems=tuple(error.problems))
        return await _page(request, actor, refused)
    told = {
        "deleted": (whole_number(form.get("deleted")) or 0) + done.deleted,
        "total": whole_number(form.get("total")),  # None: nobody counted so far
        "cursor": done.next,
    }
    response = await _page(request, actor, asked, told=told)
    response.headers["HX-Trigger"] = json.dumps({"live:runs": None, "live:stats": None})
    return response


async def _read(request: web.Request, actor: Actor, values: Mapping[str, str]) -> PurgeRequest:
    """What the fields mean; those of the rule that is not chosen do not count."""
    problems: list[Problem] = []
    typed = FormFields(values=values, problems=problems)
    wish: dict[str, int] = {}
    if typed.text("rule") == "newest":
        newest = typed.whole("newest")
        if newest is None and not problems:
            problems.append(_required("newest"))
        wish["keep_newest"] = newest or 0
    else:
        seconds = typed.length("age", typed.text("age_unit"))
        if seconds is None and not problems:
            problems.append(_required("age"))
        wish["older_than_seconds"] = round(seconds or 0)
    executor_id = whole_number(typed.text("executor"))
    if name := typed.text("job_name"):
        found = await JobNames(request.app[SERVICES], actor).ids_of(name)
        owner = await _executor_of(request, actor, found[0]) if len(found) == 1 else None
        if len(found) != 1:
            problems.append(unclear("job_name", found))
        elif executor_id is not None and owner is not None and owner != executor_id:
            problems.append(_of_another_executor("job_name"))
        else:
            wish["job_id"] = found[0]
    elif executor_id is not None:
        wish["executor_id"] = executor_id
    return PurgeRequest(values=values, wish=wish, problems=tuple(problems))


async def _executor_of(request: web.Request, actor: Actor, job_id: int) -> int | None:
    """The executor of a job; None for one that is deleted, or not visible to this person."""
    try:
        return (await request.app[SERVICES].jobs.get(actor, job_id)).item.job.executor_id
    except NotFound:
        return None


async def _page(
    request: web.Request,
    actor: Actor,
    asked: PurgeRequest,
    *,
    told: Mapping[str, Any] | None = None,
) -> web.Response:
    matching = None
    if told is None and not asked.problems:
        try:
            matching = await request.app[SERVICES].purge.preview(actor, **asked.wish)
        except InvalidInput as error:
            asked = PurgeRequest(values=asked.values, problems=tuple(error.problems))
    executors = await request.app[SERVICES].executors.names(actor)
    set_locale(request)
    is_refused = bool(asked.problems) and request.method == "POST"
    return await render(
        request,
        "runs/purge.html",
        {
            "asked": asked,
            "matching": matching,
            "told": told,
            "rule_words": _in_words(asked.wish),
            "executors": [e for e in executors if actor.may(Permission.ADMINISTER, e.id)],
            "may_everywhere": actor.may(Permission.ADMINISTER),
            "suggested": []
            if BLOCK_HEADER in request.headers
            else await JobNames(request.app[SERVICES], actor).suggestions(
                "", permission=Permission.ADMINISTER
            ),
        },
        status=422 if is_refused else 200,
        block="content",
    )


def _in_words(wish: Mapping[str, int]) -> str:
    """Which runs go, for people."""
    if "keep_newest" in wish:
        return _("All but the newest %(n)s of each job.") % {"n": number(wish["keep_newest"])}
    length = length_in_words(wish.get("older_than_seconds", 0) * 1000)
    return _("Those that were due more than %(time)s ago.") % {"time": length}


def _of_another_executor(name: str) -> Problem:
    return Problem(
        field=name,
        code="job.other_executor",
        template="This is a job of another executor than the chosen one.",
    )


def _required(name: str) -> Problem:
    return Problem(field=name, code="required", template="This is required.")
