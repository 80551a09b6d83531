"""Who was delayed at an executor, and who caused it; and the same of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tickwheel_admin.console.delays import labels
from tickwheel_admin.console.frame.formatting import duration
from tickwheel_admin.console.frame.local_time import instant_of, local_text
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.domain.delays.history import DelayKind
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.delays.service import CausingRun, ExecutorDelays, ShownJob, ShownPart
from tickwheel_admin.web.client import while_present
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

MINUTE_MS = 60_000
HOURS = (24, 1, 6, 48)  # until now, to choose from; the usual one first
LEVELS = 5  # of darkness
LEAST_WIDTH = 0.6  # per cent: whatever took no time is still seen

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class BarPart:
    """A part of a bar, in per cent of its width."""

    kind: DelayKind
    ms: int
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CausingRuns:
    """The runs of one job that another run waited for."""

    name: str
    href: str | None
    ms: int
    runs: Sequence[CausingRun]  # that the reader may see


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What one job caused another."""

    text: str  # empty: nothing
    level: int  # 0..LEVELS
    told: str
    href: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the matrix."""

    name: str
    href: str | None
    jobs: int
    runs: int
    delay: str
    bar: Sequence[BarPart]
    cells: Sequence[Cell]


@routes.get("/runs/{run_id:[0-9]{1,18}}/delay", permission=Permission.VIEW)
async def show_run_delay(request: web.Request) -> web.Response:
    """What a run waited for; the page of the run has it as a part."""
    run_id = int(request.match_info["run_id"])
    asked = request.app[SERVICES].delays.of_run(actor_of(request), run_id)
    found = await while_present(request, asked)
    set_locale(request)
    detail = await request.app[SERVICES].runs.get(actor_of(request), run_id)
    end = found.due_at + found.ms
    return await render(
        request,
        "delays/run.html",
        {
            "found": found,
            "run": detail.item.run,
            "job_name": detail.item.job_name,
            "executor_name": detail.item.executor_name,
            "bar": bar_of({part.kind: part.ms for part in found.parts}),
            "parts": [(part, causes_by_job(part)) for part in found.parts],
            "around": {"from": local_text(found.due_at), "until": local_text(end + MINUTE_MS)},
        },
    )


@routes.get("/executors/{executor_id:[0-9]{1,15}}/delays", permission=Permission.VIEW)
async def show_executor_delays(request: web.Request) -> web.Response:
    """The matrix; the work ends when its reader leaves."""
    set_locale(request)  # times are those of the reader's zone
    actor, query, services = actor_of(request), request.query, request.app[SERVICES]
    executor_id = int(request.match_info["executor_id"])
    hours = next((each for each in HOURS if str(each) == query.get("hours")), HOURS[0])
    from_at, until_at = (instant_of(query.get(name, "")) for name in ("from", "until"))
    is_period = from_at is not None or until_at is not None
    executor = (await services.executors.get(actor, executor_id)).item
    problem: Problem | None = None
    shown: dict[str, Any] = {"found": None}
    try:
        asked = services.delays.matrix(
            actor, executor_id, from_at=from_at, until_at=until_at, hours=hours
        )
        shown = _shown(await while_present(request, asked))
    except InvalidInput as error:
        problem = error.problems[0]
    set_locale(request)
    return await render(
        request,
        "delays/executor.html",
        {
            "executor": executor,
            "all_hours": sorted(HOURS),
            "hours": None if is_period else hours,
            "problem": problem,
            "from_local": query.get("from", ""),
            "until_local": query.get("until", ""),
            **shown,
        },
    )


def _shown(found: ExecutorDelays) -> dict[str, Any]:
    matrix = found.matrix
    longest = max((row.ms for row in matrix.rows), default=0)
    largest = max((ms for row in matrix.rows for ms in (*row.caused_by, row.by_others)), default=0)
    unit = labels.unit_ms(largest)
    has_others = matrix.other_causes > 0
    columns = [
        (
            labels.job_name(job),
            _job_address(job),
            labels.cell_text(cause.ms, unit),
            duration(cause.ms),
        )
        for cause, job in zip(matrix.causes, found.causes, strict=True)
    ]
    lines = []
    for row, job in zip(matrix.rows, found.rows, strict=True):
        name = labels.job_name(job)
        runs = None if job is None else _runs_address(job, found)
        causes = [*zip((column[0] for column in columns), row.caused_by, strict=True)]
        if has_others:
            causes.append((labels.job_name(None), row.by_others))
        lines.append(
            Line(
                name=name,
                href=None if job is None else _job_address(job),
                jobs=row.jobs,
                runs=row.runs,
                delay=duration(row.ms),
                bar=bar_of(row.kinds, whole=longest),
                cells=[
                    Cell(
                        text=labels.cell_text(ms, unit) if ms else "",
                        level=_level(ms, largest),
                        told=f"{name} ← {cause} · {duration(ms)}",
                        href=runs if ms else None,
                    )
                    for cause, ms in causes
                ],
            )
        )
    return {
        "found": found,
        "lines": lines,
        "columns": columns,
        "by_others": labels.cell_text(matrix.others_ms, unit) if has_others else None,
        "is_in_minutes": unit == labels.MINUTE_MS,
        "total": sum(matrix.kinds.values()),
        "bar": bar_of(matrix.kinds),
    }


def causes_by_job(part: ShownPart) -> list[CausingRuns]:
    """The causes of a part by their jobs, most first."""
    by_job: dict[int | None, list[CausingRun]] = {}
    for cause in part.causes:
        by_job.setdefault(cause.job_id, []).append(cause)
    found = [
        CausingRuns(
            name=labels.job_name(causes[0]),
            href=None if job_id is None else f"/jobs/{job_id}",
            ms=sum(cause.ms for cause in causes),
            runs=[] if job_id is None else causes,
        )
        for job_id, causes in by_job.items()
    ]
    return sorted(found, key=lambda each: -each.ms)


def bar_of(kinds: dict[DelayKind, int], *, whole: int | None = None) -> list[BarPart]:
    """Parts side by side.

    Args:
        whole: ms that fill the bar; None: all of the parts do.
    """
    whole = max(sum(kinds.values()) if whole is None else whole, 1)
    bar: list[BarPart] = []
    x = 0.0
    for kind in DelayKind:
        ms = kinds.get(kind, 0)
        if ms:
            width = max(100 * ms / whole, LEAST_WIDTH)
            bar.append(BarPart(kind=kind, ms=ms, x=round(min(x, 99), 2), width=round(width, 2)))
            x += width
    return bar


def _level(ms: int, largest: int) -> int:
    return min(LEVELS, 1 + LEVELS * ms // (largest + 1)) if ms else 0


def _job_address(job: ShownJob) -> str | None:
    return None if job.job_id is None else f"/jobs/{job.job_id}"


def _runs_address(job: ShownJob, found: ExecutorDelays) -> str | None:
    if job.job_id is None:
        return None
    return f"/runs?job={job.job_id}&from={found.from_at}&to={found.until_at}"
