"""The script of a job: edited, tried, compared with what it was, and brought back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.flash import set_flash
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import (
    done_in_place,
    go_to,
    is_scripted,
    new_request_key,
    render,
)
from tickwheel_admin.console.frame.units import pretty, whole_number
from tickwheel_admin.console.jobs.page import JOB, head_of
from tickwheel_admin.console.jobs.script_difference import difference
from tickwheel_admin.domain.errors import Conflict, InvalidInput, NotFound, Problem
from tickwheel_admin.domain.executors.node import NodeState
from tickwheel_admin.domain.input.job import job_to_raw, parse_parameters
from tickwheel_admin.domain.runs.script import USUAL_LANGUAGES, Script
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.web.body import read_form
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

_FIELDS = ("language", "source", "remark", "signature")
SCRIPT = f"{JOB}/script"

routes = Routes()


@routes.get(SCRIPT, permission=Permission.VIEW)
async def show_script(request: web.Request) -> web.Response:
    return await _page(request)


@routes.post(SCRIPT, permission=Permission.SCRIPT)
async def save_script(request: web.Request) -> web.Response:
    """A new revision of the job, in which nothing but the script is another one."""
    job_id, actor = int(request.match_info["job_id"]), actor_of(request)
    form = await read_form(request)
    detail = await request.app[SERVICES].jobs.get(actor, job_id)
    raw = job_to_raw(detail.item.job.config) | {
        "script": _typed(form, detail.item.job.config.script)
    }
    try:
        await request.app[SERVICES].jobs.update(
            actor, job_id, raw, revision=whole_number(form.get("revision")) or 0
        )
    except (InvalidInput, Conflict) as error:
        return await _page(request, sent=form, error=error)
    response = go_to(request, f"/jobs/{job_id}/script")
    set_flash(response, "job.script_saved")
    return response


@routes.post(f"{SCRIPT}/try", permission=Permission.SCRIPT)
async def try_script(request: web.Request) -> web.Response:
    """Run what is typed, once and on one node; nothing is saved, and nothing typed is lost."""
    job_id, actor = int(request.match_info["job_id"]), actor_of(request)
    form = await read_form(request)
    detail = await request.app[SERVICES].jobs.get(actor, job_id)
    typed = _typed(form, detail.item.job.config.script)
    try:
        run_id = await request.app[SERVICES].script_tries.start(
            actor,
            job_id,
            typed,
            node_id=whole_number(form.get("node")) or 0,
            parameters=parse_parameters(form.get("parameters", "").strip() or "{}"),
        )
    except (InvalidInput, Conflict) as error:
        return await _page(request, sent=form, error=error)
    if is_scripted(request):
        set_locale(request)
        return done_in_place(
            _("Run #%(id)s tries the script.") % {"id": run_id},
            href=f"/runs/{run_id}#h-log",
            link=_("Follow its log"),
            topics=("runs",),
        )
    return go_to(request, f"/runs/{run_id}")


def _typed(form: Mapping[str, str], before: Script | None) -> dict[str, str]:
    """The script in the form of the API.

    Browsers send every end of a line as CR LF. Where the script had these, it keeps them.
    """
    typed = {name: form.get(name, "") for name in _FIELDS}
    source = typed["source"].replace("\r\n", "\n")
    if before is None:
        return typed | {"source": source}
    had = before.source or ""
    if "\r\n" in had and "\n" not in had.replace("\r\n", ""):
        source = source.replace("\n", "\r\n")
    is_same = (source, typed["language"].strip()) == (had, before.language)
    if is_same and not typed["remark"].strip():
        typed["remark"] = before.remark  # nothing was changed that it could tell of
    if not is_same and typed["signature"].strip() == before.signature:
        typed["signature"] = ""  # it signed what was there before
    return typed | {"source": source}


async def _page(
    request: web.Request,
    *,
    sent: Mapping[str, str] | None = None,
    error: InvalidInput | Conflict | None = None,
) -> web.Response:
    actor, services = actor_of(request), request.app[SERVICES]
    head = await head_of(request, "script")
    job, script = head["job"], head["config"].script
    versions = await services.job_history.scripts(actor, job.id)
    nodes = (await services.executors.get(actor, job.executor_id)).nodes
    shown, compared = script, None
    if sent is None:
        shown, compared = await _asked(request, job.id, script)
    set_locale(request)
    return await render(
        request,
        "jobs/script.html",
        {
            **head,
            "script": script,
            "values": _values(shown) if sent is None else sent,
            "loaded": whole_number(request.query.get("version")),
            "versions": versions,
            "compared": compared,
            "script_languages": USUAL_LANGUAGES,
            "nodes": [
                view.node
                for view in nodes
                if view.node.state is NodeState.LIVE and view.node.offers(job.config.handler)
            ],
            "parameters_text": (sent and sent.get("parameters")) or pretty(job.config.parameters),
            "problems": _problems(error),
            "conflict": error if isinstance(error, Conflict) else None,
            "request_key": new_request_key(),
        },
        status=200 if error is None else error.status,
        block="form",
    )


async def _asked(
    request: web.Request, job_id: int, script: Script | None
) -> tuple[Script | None, dict[str, Any] | None]:
    """The version that the address names, and two that are to be compared."""
    history, actor = request.app[SERVICES].job_history, actor_of(request)
    shown, compared = script, None

    async def of(number: int) -> Script | None:
        return (await history.config(actor, job_id, number)).script

    try:
        if version := whole_number(request.query.get("version")):
            shown = await of(version) or script
        before, after = (whole_number(request.query.get(name)) for name in ("from", "to"))
        if before and after:
            old, new = await of(before), await of(after)
            parts = difference(_source(old), _source(new))
            compared = {"before": before, "after": after, "parts": parts}
    except NotFound as error:
        if error.code != "job.revision_unknown":
            raise
    return shown, compared


def _source(script: Script | None) -> str:
    return "" if script is None else script.source or ""


def _values(script: Script | None) -> dict[str, str]:
    if script is None:
        return dict.fromkeys(_FIELDS, "")
    # A remark tells what was changed, so it does not stay for the next change.
    return {
        "language": script.language,
        "source": script.source or "",
        "signature": script.signature,
    }


def _problems(error: InvalidInput | Conflict | None) -> dict[str, Problem]:
    """By the field of the form."""
    if not isinstance(error, InvalidInput):
        return {}
    found: Sequence[Problem] = error.problems
    return {each.field.removeprefix("script.").replace("node_id", "node"): each for each in found}
