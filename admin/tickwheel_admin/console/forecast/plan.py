"""The night plan as a page: deadlines, why they are in danger and what helps, lanes, and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tickwheel_admin.console.forecast.lanes import IN_DANGER, drawn_lanes, names_of
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import BLOCK_HEADER, is_scripted, render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.domain.errors import InvalidInput, TooMany, Unavailable
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.forecast.plan import DeadlineVerdict, ExecutorPlan, RemedyOutcome
from tickwheel_admin.web.client import while_present
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

AHEAD = (12, 4, 24)  # hours to choose from, the usual one first
BACK = (2, 12)
ANSWER = "answer"  # the block that fetches itself
SHOWN_RUNS = 200  # in words
SHOWN_FINE = 5  # of the deadlines that are in no danger

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """A run in words."""

    state: str  # a state, or "predicted"
    job_id: int
    run_id: int | None
    start_at: int
    end_at: int | None
    slow_end_at: int | None
    after_job_id: int | None


@routes.get("/night-plan", permission=Permission.VIEW)
async def show_plan(request: web.Request) -> web.Response:
    """The page, which fetches its answer; without a script, `now` asks for both at once."""
    set_locale(request)
    actor, services, query = actor_of(request), request.app[SERVICES], request.query
    executors = await services.executors.names(actor)
    wanted = whole_number(query.get("executor"))
    executor = next((each for each in executors if each.id == wanted), None)
    if executor is None and executors and wanted is None:
        executor = executors[0]
    by_node = query.get("by") == "node"
    ahead = _one_of(query.get("ahead"), AHEAD)
    back = _one_of(query.get("back"), BACK)
    context: dict[str, Any] = {
        "executors": executors,
        "executor": executor,
        "ahead": ahead,
        "all_ahead": sorted(AHEAD),
        "back": back,
        "all_back": BACK,
        "by_node": by_node,
        "found": None,
        "refused": None,
    }
    is_asked = request.headers.get(BLOCK_HEADER) == ANSWER or "now" in query
    status = 200
    if executor is not None and is_asked:
        try:
            asked = services.night_plans.get(
                actor, executor.id, nodes=by_node, back_hours=back, hours=ahead
            )
            context |= _shown(await while_present(request, asked), by_node)
        except (InvalidInput, TooMany, Unavailable) as error:
            context["refused"] = error
            is_part = is_scripted(request) or BLOCK_HEADER in request.headers
            status = 200 if is_part else error.status
        set_locale(request)
    return await render(request, "forecast/plan.html", context, status=status, block=ANSWER)


def _one_of(text: str | None, choices: Sequence[int]) -> int:
    return next((each for each in choices if str(each) == text), choices[0])


def _shown(found: ExecutorPlan, by_node: bool) -> dict[str, Any]:
    deadlines = found.plan.deadlines
    in_danger = [each for each in deadlines if each.verdict in IN_DANGER]
    others = [each for each in deadlines if each.verdict not in IN_DANGER]
    rows = _rows(found)
    return {
        "found": found,
        "plan": found.plan,
        "names": found.job_names,
        "pages": found.workflows,
        "drawn": drawn_lanes(found, by_node=by_node),
        "lane_names": names_of(found, by_node=by_node),
        "in_danger": in_danger,
        "in_no_danger": others[:SHOWN_FINE],
        "more_others": max(0, len(others) - SHOWN_FINE),
        "missed": DeadlineVerdict.MISSED,
        "done": DeadlineVerdict.DONE,
        "rows": rows[:SHOWN_RUNS],
        "more_rows": max(0, len(rows) - SHOWN_RUNS),
        "sums": [*found.past_sums, *found.plan.sums],
        "jobs_of": lambda outcome: _jobs_of(outcome, found.job_names),
    }


def _rows(found: ExecutorPlan) -> list[PlanRow]:
    """What goes on and comes, then what is over, the newest first."""
    coming = [
        PlanRow(
            state="running" if bar.is_running else "predicted",
            job_id=bar.job_id,
            run_id=bar.run_id,
            start_at=bar.start_at,
            end_at=bar.end_at,
            slow_end_at=bar.slow_end_at,
            after_job_id=bar.after_job_id,
        )
        for bar in found.plan.bars
    ]
    over = [
        PlanRow(
            state=run.state.value,
            job_id=run.job_id,
            run_id=run.id,
            start_at=run.ended_at if run.started_at is None else run.started_at,
            end_at=run.ended_at,
            slow_end_at=None,
            after_job_id=None,
        )
        for run in reversed(found.past)
    ]
    return coming + over


def _jobs_of(outcome: RemedyOutcome, names: Mapping[int, str]) -> str:
    """The jobs that something is done with."""
    return ", ".join(names.get(job_id) or _("another job") for job_id in outcome.remedy.job_ids)
