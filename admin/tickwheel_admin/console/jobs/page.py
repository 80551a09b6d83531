"""The page of a job: how it fares, its runs, and its configuration."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.charts import column_chart
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.jobs.figures import (
    counted_of,
    failures_in_a_row,
    figures_of,
    length_ms,
)
from tickwheel_admin.console.jobs.labels import groups_of
from tickwheel_admin.console.runs.filter import group_name
from tickwheel_admin.console.runs.labels import shown_state
from tickwheel_admin.console.triggers.labels import misfire_text
from tickwheel_admin.console.workflows.graph import graph_of
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.jobs.service import JobDetail
from tickwheel_admin.services.jobs.yaml import to_yaml
from tickwheel_admin.services.runs.service import RunGroup, RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

JOB = "/jobs/{job_id:[0-9]{1,18}}"
SHOWN_RUNS = 60  # in the chart
SHOWN_RECENT = 10  # in the table below it
SAME_HEADER = "X-Same"  # the revision whose graph an open page shows
STATES = (
    RunGroup.ACTIVE.value,
    RunState.SUCCEEDED.value,
    RunGroup.FAILED_ANY.value,
    RunState.CANCELLED.value,
    RunState.SKIPPED.value,
)

routes = Routes()


@routes.get(JOB, permission=Permission.VIEW)
async def show_job(request: web.Request) -> web.Response:
    actor, job_id = actor_of(request), int(request.match_info["job_id"])
    head = await head_of(request, "overview")
    runs = await request.app[SERVICES].runs.page(actor, RunQuery(job_id=job_id), limit=SHOWN_RUNS)
    kept = await request.app[SERVICES].job_states.get(actor, job_id)
    set_locale(request)
    workflow = head["config"].workflow
    if request.headers.get(SAME_HEADER) == str(head["job"].revision):
        workflow = None  # what the page shows of it is left as it is
    job_names = {}
    if workflow is not None:
        job_names = await request.app[SERVICES].workflow_runs.job_names(actor, workflow)
    drawn = [item for item in counted_of(runs.items)[::-1] if item.run.started_at is not None]
    return await render(
        request,
        "jobs/page.html",
        {
            **head,
            "runs": runs.items,
            "waiting": await request.app[SERVICES].runs.why_they_wait(runs.items[:SHOWN_RECENT]),
            "drawn": drawn,
            "chart": column_chart(
                [[(shown_state(item.run), length_ms(item) or 1)] for item in drawn],
                height=190,
                room=SHOWN_RUNS,
            ),
            "figures": figures_of(runs.items),
            "kept": kept if kept.kept or kept.updated_at is not None else None,
            "missed": _missed(head["config"]),
            "workflow_graph": graph_of(workflow, job_names) if workflow is not None else None,
            "step_jobs": job_names,
        },
    )


@routes.get(f"{JOB}/runs", permission=Permission.VIEW)
async def list_runs(request: web.Request) -> web.Response:
    actor, job_id = actor_of(request), int(request.match_info["job_id"])
    head = await head_of(request, "runs")
    state = request.query.get("state", "")
    chosen = state if state in STATES else None
    page = await request.app[SERVICES].runs.page(
        actor, RunQuery(job_id=job_id, state=chosen), cursor=request.query.get("cursor")
    )
    set_locale(request)
    return await render(
        request,
        "jobs/runs.html",
        {
            **head,
            "runs": page.items,
            "waiting": await request.app[SERVICES].runs.why_they_wait(page.items),
            "next_cursor": page.next,
            "state": chosen or "",
            "states": [(each, group_name(each)) for each in STATES],
        },
    )


@routes.get(f"{JOB}/config", permission=Permission.VIEW)
async def show_config(request: web.Request) -> web.Response:
    head = await head_of(request, "config")
    set_locale(request)
    return await render(
        request,
        "jobs/config.html",
        {
            **head,
            "groups": groups_of(head["config"]),
            "yaml": to_yaml(head["detail"].raw),
        },
    )


@routes.get(f"{JOB}/job.yaml", permission=Permission.VIEW)
async def download_yaml(request: web.Request) -> web.Response:
    """The job as a file."""
    job_id = int(request.match_info["job_id"])
    detail = await request.app[SERVICES].jobs.get(actor_of(request), job_id)
    return web.Response(
        text=to_yaml(detail.raw),
        content_type="application/yaml",
        charset="utf-8",
        headers={"Content-Disposition": f'attachment; filename="job-{job_id}.yaml"'},
    )


async def head_of(request: web.Request, tab: str) -> dict[str, Any]:
    """What the upper part of each of a job's pages needs.

    Args:
        tab: the one that is shown: overview, runs, config or history.
    """
    actor, job_id = actor_of(request), int(request.match_info["job_id"])
    detail: JobDetail = await request.app[SERVICES].jobs.get(actor, job_id)
    parents = await request.app[SERVICES].job_parents.of(actor, job_id)
    return {
        "detail": detail,
        "job": detail.item.job,
        "config": detail.item.job.config,
        "tab": tab,
        "parents": parents,
        "failures": failures_in_a_row(detail.item.recent),
    }


def _missed(config: JobConfig) -> list[str]:
    """What becomes of missed fires; said once when all triggers agree."""
    texts = (misfire_text(spec) for spec in config.triggers if not spec.follows_runs)
    return list(dict.fromkeys(texts))
