"""The map of jobs: which job starts which, of an executor or with a tag."""

from __future__ import annotations

from collections import defaultdict

from aiohttp import web

from tickwheel_admin.console.frame.graphs import GraphDrawing, GraphLink, GraphNode, draw
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.jobs.policy_labels import child_on_text
from tickwheel_admin.domain.jobs.children import ChildOn
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.maps import MAX_JOBS, JobLink, JobMap, MapJob
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

MAX_TAG_CHARS = 100
_LOOKS: dict[ChildOn | None, tuple[str, ...]] = {
    ChildOn.FAILURE: ("n-failed",),
    ChildOn.ALWAYS: ("n-ended",),
}

routes = Routes()


@routes.get("/jobs/map", permission=Permission.VIEW)
async def show_map(request: web.Request) -> web.Response:
    actor = actor_of(request)
    executors = await request.app[SERVICES].executors.names(actor)
    executor_id = whole_number(request.query.get("executor"))
    tag = request.query.get("tag", "").strip()[:MAX_TAG_CHARS]
    found = await request.app[SERVICES].job_maps.get(
        actor, executor_id=executor_id, tag=tag or None
    )
    set_locale(request)
    return await render(
        request,
        "jobs/map.html",
        {
            "map": found,
            "graph": graph_of_map(found) if found.jobs else None,
            "starts": _starts(found),
            "executors": executors,
            "executor_id": executor_id,
            "tag": tag,
            "most": MAX_JOBS,
        },
    )


def graph_of_map(found: JobMap) -> GraphDrawing:
    """The jobs as nodes that lead to their pages."""
    starts = _starts(found)
    nodes = [
        GraphNode(
            key=str(job.id),
            name=job.name,
            told=_told(job),
            spoken=_spoken(job, starts[index]),
            look="" if job.is_asked_for else "queued",
            href=f"/jobs/{job.id}",
        )
        for index, job in enumerate(found.jobs)
    ]
    links = [
        GraphLink(source=each.source, target=each.target, looks=_LOOKS.get(each.on, ()))
        for each in found.links
    ]
    return draw(_("Which job starts which"), nodes, links)


def link_text(link: JobLink) -> str:
    """When the other job is started."""
    return _("as a step") if link.on is None else child_on_text(link.on)


def _told(job: MapJob) -> str:
    return f"{_('Workflow')} · {job.executor_name}" if job.is_workflow else job.executor_name


def _spoken(job: MapJob, starts: list[tuple[MapJob, str]]) -> str:
    text = f"{job.name}, {_told(job)}"
    if not starts:
        return text
    names = ", ".join(other.name for other, _when in starts[:5])
    return f"{text}, {_('starts %(names)s') % {'names': names}}"


def _starts(found: JobMap) -> defaultdict[int, list[tuple[MapJob, str]]]:
    """By job, those that it starts, and when."""
    starts: defaultdict[int, list[tuple[MapJob, str]]] = defaultdict(list)
    for link in found.links:
        starts[link.source].append((found.jobs[link.target], link_text(link)))
    return starts
