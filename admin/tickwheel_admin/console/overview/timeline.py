"""The next hour as a timeline: one line for each job, a dot for each fire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from aiohttp import web

from tickwheel_admin.console.frame.locale import REQUEST_LOCALE
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.trigger import trigger_to_raw
from tickwheel_admin.domain.planning.plan import runs_left
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import Trigger
from tickwheel_admin.services.jobs.lists import fires_of
from tickwheel_admin.services.overview.service import FREQUENT_MS, NextJob
from tickwheel_admin.web.keys import SERVICES

HOUR_MS = 3_600_000
FEW_FIRES = 6  # fewer of them say nothing of how often they come
MOST_FIRES = 60  # of one job; more would be a line of dots that touch


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """One job's fires of the next hour."""

    job_id: int
    name: str
    first_at: int
    fires: list[tuple[float, int]]  # position in per cent, instant
    is_dense: bool  # there are more than are shown
    every_ms: int | None = None  # it fires so often that this says more than its fires


async def timeline_of(request: web.Request, jobs: Sequence[NextJob]) -> list[TimelineRow]:
    """The next hour's fires, job by job, the one that fires first on top."""
    now_at = REQUEST_LOCALE.get().now_at
    rows = []
    for job in jobs:
        fires = sorted(
            [
                at
                for trigger in job.triggers
                for at in await _within_an_hour(request, trigger, now_at)
                if at >= now_at  # else it is over, or late, which is told elsewhere
            ]
        )
        every_ms = _every_ms(fires)
        if fires:
            rows.append(
                TimelineRow(
                    job_id=job.id,
                    name=job.name,
                    first_at=fires[0],
                    fires=[(_position(at, now_at), at) for at in fires[:MOST_FIRES]],
                    is_dense=len(fires) > MOST_FIRES,
                    every_ms=every_ms,
                )
            )
    return rows


def _every_ms(fires: Sequence[int]) -> int | None:
    """How far apart the fires are that come more often than every two minutes."""
    if len(fires) < FEW_FIRES:
        return None
    gap = (fires[FEW_FIRES - 1] - fires[0]) // (FEW_FIRES - 1)
    return gap if 0 < gap < FREQUENT_MS else None


def ticks() -> list[tuple[float, int]]:
    """Every full ten minutes of the next hour: position in per cent, instant."""
    now_at = REQUEST_LOCALE.get().now_at
    step = HOUR_MS // 6
    first = (now_at // step + 1) * step
    return [(_position(at, now_at), at) for at in range(first, first + HOUR_MS, step)]


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
    spec = spec.anchored(first_at)
    try:
        preview = await request.app[SERVICES].triggers.preview(
            trigger_to_raw(spec), n=MOST_FIRES + 1, after=first_at - 1
        )
    except InvalidInput:
        return [first_at]  # its calendar has just gone
    return [fire.at for fire in preview.fires if fire.at < now_at + HOUR_MS]


def _position(at: int, now_at: int) -> float:
    """Per cent of the hour."""
    return round(100 * max(at - now_at, 0) / HOUR_MS, 2)
