"""The list of jobs, and the page of one."""

from __future__ import annotations

from statistics import median
from typing import Any

from aiohttp import web

from tickwheel_admin.console.charts import column_chart
from tickwheel_admin.console.labels import shown_state
from tickwheel_admin.console.reader import set_reader
from tickwheel_admin.console.rendering import render
from tickwheel_admin.console.trigger_words import misfire_text
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.run import FAILURES, FINAL, RunState
from tickwheel_admin.domain.trigger import TriggerKind
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.jobs import JobQuery, JobView
from tickwheel_admin.services.runs import RunItem, RunQuery
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import EXECUTORS, JOB_STATES, JOBS, RUNS
from tickwheel_admin.web.routes import Routes

SHOWN_RUNS = 60  # in the chart of a job
SHOWN_RECENT = 10  # in the table below it

routes = Routes()


@routes.get("/jobs", permission=Permission.VIEW)
async def list_jobs(request: web.Request) -> web.Response:
    actor = actor_of(request)
    executors = await request.app[EXECUTORS].list(actor)
    view = request.query.get("view", "all")
    chosen = request.query.get("executor", "")
    query = JobQuery(
        text=request.query.get("q", "").strip()[:200],
        # Values that mean nothing are left aside: a bookmark may be older than what it filters by.
        executor_id=next((e.id for e in executors if str(e.id) == chosen), None),
        view=view if view in frozenset(JobView) else JobView.ALL,
    )
    page = await request.app[JOBS].page(actor, query, cursor=request.query.get("cursor"))
    return await render(
        request,
        "jobs.html",
        {
            "jobs": page.items,
            "next_cursor": page.next,
            "query_values": query,
            "executors": executors,
            "is_filtered": query != JobQuery(),
        },
    )


@routes.get("/jobs/{job_id:[0-9]{1,18}}", permission=Permission.VIEW)
async def show_job(request: web.Request) -> web.Response:
    actor, job_id = actor_of(request), int(request.match_info["job_id"])
    detail = await request.app[JOBS].get(actor, job_id)
    runs = await request.app[RUNS].page(actor, RunQuery(job_id=job_id), limit=SHOWN_RUNS)
    kept = await request.app[JOB_STATES].get(actor, job_id)
    set_reader(request)
    drawn = [item for item in reversed(runs.items) if item.run.started_at is not None]
    return await render(
        request,
        "job.html",
        {
            "detail": detail,
            "job": detail.item.job,
            "config": detail.item.job.config,
            "runs": runs.items,
            "waiting": await request.app[RUNS].why_they_wait(runs.items[:SHOWN_RECENT]),
            "drawn": drawn,
            "chart": column_chart(
                [[(shown_state(item.run), _length_ms(item) or 1)] for item in drawn],
                height=190,
                room=SHOWN_RUNS,
            ),
            "numbers": _numbers(runs.items),
            "failures_in_a_row": _failures_in_a_row(runs.items),
            "kept": kept if kept.kept or kept.updated_at is not None else None,
            "missed": _missed(detail.item.job.config),
        },
    )


def _missed(config: JobConfig) -> list[str]:
    """What becomes of missed fires; said once when all triggers agree."""
    texts = (
        misfire_text(spec) for spec in config.triggers if spec.kind is not TriggerKind.FIXED_DELAY
    )
    return list(dict.fromkeys(texts))


def _length_ms(item: RunItem) -> int | None:
    run = item.run
    if run.started_at is None or run.ended_at is None:
        return None
    return run.ended_at - run.started_at


def _numbers(items: list[RunItem]) -> dict[str, Any]:
    """Success, usual and longest duration, usual delay of the start."""
    counted = [i.run.state for i in items if i.run.state in FINAL - {RunState.SKIPPED}]
    lengths = sorted(length for item in items if (length := _length_ms(item)) is not None)
    delays = [
        item.run.started_at - item.run.scheduled_at
        for item in items
        if item.run.started_at is not None and item.run.tries <= 1
    ]
    return {
        "succeeded": sum(state is RunState.SUCCEEDED for state in counted),
        "counted": len(counted),
        "median_ms": median(lengths) if lengths else None,
        "longest_ms": lengths[-1] if lengths else None,
        "delay_ms": max(median(delays), 0) if delays else None,
    }


def _failures_in_a_row(items: list[RunItem]) -> int:
    """How many of the newest ended runs failed without one that succeeded between them."""
    count = 0
    for item in items:
        if item.run.state in FAILURES:
            count += 1
        elif item.run.state is RunState.SUCCEEDED:
            break
    return count
