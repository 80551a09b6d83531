"""The first page: how things are, what runs, what failed, what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Any

from aiohttp import web

from tickwheel_admin.console.attention_words import SHOWN, told
from tickwheel_admin.console.charts import column_chart, trend
from tickwheel_admin.console.reader import READER, set_reader
from tickwheel_admin.console.rendering import BLOCK_HEADER, render
from tickwheel_admin.domain.errors import InvalidInput, NotFound
from tickwheel_admin.domain.planning import runs_left
from tickwheel_admin.domain.trigger import Trigger, TriggerKind, TriggerSpec
from tickwheel_admin.domain.trigger_input import trigger_to_raw
from tickwheel_admin.domain.user import Permission
from tickwheel_admin.services.job_lists import fires_of
from tickwheel_admin.services.overview import NextFire, OutcomeBucket, OverviewData
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import ATTENTION, CONFIG, EXECUTORS, JOBS, OVERVIEW, SCHEDULES
from tickwheel_admin.web.routes import Routes

HOUR_MS = 3_600_000
KINDS = ("succeeded", "failed", "timed_out", "other")  # of the outcome chart, from the bottom up

MOST_FIRES = 60  # of one job; more would be a line of dots that touch

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One job's fires of the next hour."""

    job_id: int
    name: str
    first_at: int
    fires: list[tuple[float, int]]  # position in per cent, instant
    is_dense: bool  # there are more than are shown


@routes.get("/", permission=Permission.VIEW)
async def show_overview(request: web.Request) -> web.Response:
    actor = actor_of(request)
    if request.headers.get(BLOCK_HEADER) == "attention":
        return await render(request, "overview.html", await _attention(request))
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
            # Neither a success nor a failure: what somebody cancelled or a trigger skipped.
            "decided_24h": sum(_decided(bucket) for bucket in data.buckets),
            "trends": _trends(data),
            "lanes": await _lanes(request, data.next_fires),
            "ticks": _ticks(),
            "concerns": [],
            "shown_concerns": SHOWN,
            **(await _attention(request) if BLOCK_HEADER not in request.headers else {}),
        },
    )


async def _attention(request: web.Request) -> dict[str, Any]:
    """What needs attention; nothing else of the overview has to be read for it."""
    concerns = await request.app[ATTENTION].get(actor_of(request))
    set_reader(request)
    return {"concerns": told(concerns), "shown_concerns": SHOWN}


def _trends(data: OverviewData) -> dict[str, tuple[str, str]]:
    whole = data.buckets[:-1]  # the last half hour is not over
    shares = [b.succeeded / _decided(b) if _decided(b) else 1.0 for b in whole]
    return {
        "all": trend([bucket.total for bucket in whole]),
        "succeeded": trend(shares, low=min([0.5, *shares])),
        "failed": trend([bucket.failed + bucket.timed_out for bucket in whole]),
    }


def _decided(bucket: OutcomeBucket) -> int:
    return bucket.succeeded + bucket.failed + bucket.timed_out


async def _lanes(request: web.Request, next_fires: Sequence[NextFire]) -> list[Lane]:
    """The next hour's fires, job by job, the one that fires first on top."""
    if request.headers.get(BLOCK_HEADER, "lanes") != "lanes":
        return []
    actor, now_at = actor_of(request), READER.get().now_at
    names = {fire.job_id: fire.job_name for fire in sorted(next_fires)}
    lanes = []
    for job_id, name in names.items():
        try:
            triggers = (await request.app[JOBS].get(actor, job_id)).item.triggers
        except NotFound:
            continue  # deleted since
        fires = sorted(
            [at for trigger in triggers for at in await _within_an_hour(request, trigger, now_at)]
        )
        if fires:
            lanes.append(
                Lane(
                    job_id=job_id,
                    name=name,
                    first_at=fires[0],
                    fires=[(_position(at, now_at), at) for at in fires[:MOST_FIRES]],
                    is_dense=len(fires) > MOST_FIRES,
                )
            )
    return lanes


async def _within_an_hour(request: web.Request, trigger: Trigger, now_at: int) -> list[int]:
    """Fires of one trigger, one more than are shown."""
    first_at, spec = trigger.next_fire_at, trigger.spec
    if first_at is None:
        return []
    # The first fire anchors a fixed rate that has no anchor of its own.
    if spec.calendar is None:
        fires = fires_of(spec, saved_at=first_at, after=first_at - 1)
        found = list(islice(takewhile(lambda at: at < now_at + HOUR_MS, fires), MOST_FIRES + 1))
    else:
        found = await _with_its_calendar(request, spec, first_at, now_at)
    return found[: runs_left(spec, trigger.fires)]


async def _with_its_calendar(
    request: web.Request, spec: TriggerSpec, first_at: int, now_at: int
) -> list[int]:
    if spec.kind is TriggerKind.FIXED_RATE and spec.anchor_at is None:
        spec = replace(spec, anchor_at=first_at)
    try:
        preview = await request.app[SCHEDULES].preview(
            trigger_to_raw(spec), n=MOST_FIRES + 1, after=first_at - 1
        )
    except InvalidInput:
        return [first_at]  # its calendar has just gone
    return [fire.at for fire in preview.fires if fire.at < now_at + HOUR_MS]


def _ticks() -> list[tuple[float, int]]:
    """Every full ten minutes of the next hour."""
    now_at = READER.get().now_at
    step = HOUR_MS // 6
    first = (now_at // step + 1) * step
    return [(_position(at, now_at), at) for at in range(first, first + HOUR_MS, step)]


def _position(at: int, now_at: int) -> float:
    """Per cent of the hour."""
    return round(100 * max(at - now_at, 0) / HOUR_MS, 2)
