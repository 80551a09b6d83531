"""The first page: how things are, what runs, what failed, what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from tickwheel_admin.console.charts import column_chart, trend
from tickwheel_admin.console.reader import READER, set_reader
from tickwheel_admin.console.rendering import render
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.overview import OverviewData
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, EXECUTORS, OVERVIEW
from tickwheel_admin.web.routes import Routes

HOUR_MS = 3_600_000
KINDS = ("succeeded", "failed", "timed_out", "other")  # of the outcome chart, from the bottom up

routes = Routes()


@routes.get("/", permission=Permission.VIEW)
async def show_overview(request: web.Request) -> web.Response:
    actor = actor_of(request)
    data = await request.app[OVERVIEW].get(actor)
    if data.first_steps:
        executors = await request.app[EXECUTORS].list(actor)
        return await render(
            request,
            "first_steps.html",
            {"executors": executors, "admin_url": request.app[CONFIG].public_url},
        )
    set_reader(request)
    succeeded = sum(bucket.succeeded for bucket in data.buckets)
    return await render(
        request,
        "overview.html",
        {
            "data": data,
            "kinds": KINDS,
            "chart": column_chart(
                [[(kind, getattr(b, kind)) for kind in KINDS] for b in data.buckets], height=218
            ),
            "totals": {kind: sum(getattr(b, kind) for b in data.buckets) for kind in KINDS},
            "succeeded_24h": succeeded,
            "trends": _trends(data),
            "lanes": _lanes(data.next_fires),
            "ticks": _ticks(),
        },
    )


def _trends(data: OverviewData) -> dict[str, tuple[str, str]]:
    totals = [b.succeeded + b.failed + b.timed_out + b.other for b in data.buckets]
    shares = [
        bucket.succeeded / total if total else 1.0
        for bucket, total in zip(data.buckets, totals, strict=True)
    ]
    return {
        "all": trend(totals),
        "succeeded": trend(shares, low=min([0.5, *shares])),
        "failed": trend([b.failed + b.timed_out for b in data.buckets]),
    }


def _lanes(fires: Sequence[tuple[int, int, str]]) -> list[dict[str, Any]]:
    """The next hour's fires, job by job, the one that fires first on top."""
    now_at = READER.get().now_at
    lanes: dict[int, dict[str, Any]] = {}
    for at, job_id, name in sorted(fires):
        lane = lanes.setdefault(job_id, {"job_id": job_id, "name": name, "fires": []})
        lane["fires"].append((round(100 * max(at - now_at, 0) / HOUR_MS, 2), at))
    return list(lanes.values())


def _ticks() -> list[tuple[float, int]]:
    """Every full ten minutes of the next hour."""
    now_at = READER.get().now_at
    step = HOUR_MS // 6
    first = (now_at // step + 1) * step
    return [
        (round(100 * (at - now_at) / HOUR_MS, 2), at) for at in range(first, first + HOUR_MS, step)
    ]
