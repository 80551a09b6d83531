"""The coverage of a job: a strip for each day, and what was skipped or done twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from aiohttp import web

from tickwheel_admin.console.frame.consequences import Consequence
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.i18n import ngettext
from tickwheel_admin.console.frame.local_time import instant_of, local_text, local_zone
from tickwheel_admin.console.frame.locale import set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.jobs.page import JOB, head_of
from tickwheel_admin.domain.backfills.coverage import (
    FAULTS,
    Coverage,
    Interval,
    IntervalState,
    segments_of,
)
from tickwheel_admin.domain.errors import InvalidInput, Problem
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.backfills.coverage import CoverageRequest, TriggerCoverage
from tickwheel_admin.web.client import while_present
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

DAY_MS = 86_400_000
DAYS = (7, 1, 30, 90)  # until now, to choose from; the usual one first
SHOWN_FAULTS = 200  # rows of intervals alike
NARROWEST = 0.35  # per cent of a day that a part is at least drawn

routes = Routes()


@dataclass(frozen=True, slots=True, kw_only=True)
class StripPart:
    """Intervals in a row of which the same became, as far as they lie in a day."""

    state: IntervalState
    from_at: int
    until_at: int
    x: float  # per cent of the day
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DayStrip:
    """A local day."""

    at: int
    parts: Sequence[StripPart]
    counts: Counter[IntervalState]  # intervals that end on it

    @property
    def has_faults(self) -> bool:
        """Whether a person should look at it."""
        return any(self.counts[each] for each in FAULTS)


@routes.get(f"{JOB}/coverage", permission=Permission.VIEW)
async def show_coverage(request: web.Request) -> web.Response:
    """Coverage of a trigger; the work ends when its reader leaves."""
    set_locale(request)  # times are those of the reader's zone
    query = request.query
    head = await head_of(request, "coverage")
    set_locale(request)
    triggers = [each for each in head["detail"].item.triggers if not each.spec.follows_runs]
    chosen = next(
        (each.id for each in triggers if str(each.id) == query.get("trigger")),
        triggers[0].id if triggers else None,
    )
    from_at, until_at = (instant_of(query.get(name, "")) for name in ("from", "until"))
    days = next((each for each in DAYS if str(each) == query.get("days")), DAYS[0])
    found: TriggerCoverage | None = None
    problem: Problem | None = None
    if triggers:
        wanted = CoverageRequest(
            from_at=None if from_at is None else max(0, from_at),
            until_at=until_at,
            trigger_id=chosen,
            days=days,
        )
        try:
            found = await while_present(
                request,
                request.app[SERVICES].backfills.coverage(actor_of(request), head["job"].id, wanted),
            )
        except InvalidInput as error:
            problem = error.problems[0]
    return await render(
        request,
        "backfills/coverage.html",
        {
            **head,
            "triggers": triggers,
            "trigger_id": chosen,
            "all_days": sorted(DAYS),
            "days": days if from_at is None and until_at is None else None,
            "from_local": query.get("from", ""),
            "until_local": query.get("until", ""),
            "problem": problem,
            "coverage": None if found is None else found.coverage,
            **({} if found is None else _shown(found.coverage)),
        },
    )


def _shown(coverage: Coverage) -> dict[str, object]:
    faults = segments_of(coverage.intervals)
    faults = [each for each in faults if each.state in FAULTS]
    holes = [each.at for each in coverage.intervals if each.is_hole]
    fill = None
    if holes:
        last = holes[-1] // 1_000 * 1_000 + 1_000
        fill = {"from": local_text(holes[0] // 1_000 * 1_000), "to": local_text(last)}
    return {
        "findings": _findings(coverage),
        "strips": strips_of(coverage.intervals, local_zone()),
        "faults": faults[:SHOWN_FAULTS],
        "more_faults": max(0, len(faults) - SHOWN_FAULTS),
        "fill": fill,
        "next_local": local_text(coverage.until_at) if coverage.more else None,
        "states": [each for each in IntervalState if coverage.counts[each]],
    }


def _findings(coverage: Coverage) -> list[Consequence]:
    counts = coverage.counts
    total, holes = sum(counts.values()), coverage.holes
    found: list[Consequence] = []
    if holes:
        text = ngettext(
            "%(num)s interval was not processed.", "%(num)s intervals were not processed.", holes
        )
        found.append(Consequence(text=text % {"num": holes}, look="bad"))
    if twice := counts[IntervalState.TWICE]:
        text = ngettext(
            "%(num)s interval was processed more than once.",
            "%(num)s intervals were processed more than once.",
            twice,
        )
        found.append(Consequence(text=text % {"num": twice}, look="bad"))
    if partly := counts[IntervalState.PARTLY]:
        text = ngettext(
            "Of %(num)s interval only a part was processed: the schedule was changed within it."
            " Run it by hand.",
            "Of %(num)s intervals only a part was processed: the schedule was changed within them."
            " Run them by hand.",
            partly,
        )
        found.append(Consequence(text=text % {"num": partly}, look="bad"))
    if total and coverage.is_whole and counts[IntervalState.DONE] == total:
        text = ngettext(
            "The %(num)s interval was processed, and once.",
            "All %(num)s intervals were processed, each once.",
            total,
        )
        found.append(Consequence(text=text % {"num": total}, look="ok"))
    if pending := counts[IntervalState.RUNNING] + counts[IntervalState.WAITING]:
        text = ngettext(
            "%(num)s interval has a run that waits or runs.",
            "%(num)s intervals have runs that wait or run.",
            pending,
        )
        found.append(Consequence(text=text % {"num": pending}, look=""))
    if unknown := counts[IntervalState.UNKNOWN]:
        text = ngettext(
            "Of %(num)s interval it is not known any more: its runs may have been deleted.",
            "Of %(num)s intervals it is not known any more: their runs may have been deleted.",
            unknown,
        )
        found.append(Consequence(text=text % {"num": unknown}, look=""))
    if not total:
        found.append(Consequence(text=_("The trigger has no interval in this time."), look=""))
    return found


def strips_of(intervals: Sequence[Interval], zone: ZoneInfo) -> list[DayStrip]:
    """A strip for each local day on which an interval lies, the newest first."""
    days: defaultdict[int, list[tuple[IntervalState, int, int]]] = defaultdict(list)
    counts: defaultdict[int, Counter[IntervalState]] = defaultdict(Counter)
    for each in intervals:
        # A day from the end on: a daily interval that ends at midnight is one of the day before.
        at = max(each.start_at, intervals[0].at - DAY_MS)
        counts[_midnight(each.at - 1, zone)][each.state] += 1
        while at < each.at:
            day = _midnight(at, zone)
            end = min(each.at, _next_midnight(at, zone))
            parts = days[day]
            if parts and parts[-1][0] is each.state and parts[-1][2] == at:
                parts[-1] = (each.state, parts[-1][1], end)
            else:
                parts.append((each.state, at, end))
            at = end
    return [
        DayStrip(
            at=day,
            parts=[_part(part, day, _next_midnight(day, zone)) for part in days[day]],
            counts=counts[day],
        )
        for day in sorted(days, reverse=True)
    ]


def _part(part: tuple[IntervalState, int, int], day: int, end: int) -> StripPart:
    state, low, high = part
    scale = 100 / (end - day)
    width = max(NARROWEST, (high - low) * scale)
    return StripPart(
        state=state,
        from_at=low,
        until_at=high,
        x=round(min((low - day) * scale, 100 - width), 3),
        width=round(width, 3),
    )


def _midnight(at: int, zone: ZoneInfo) -> int:
    local = datetime.fromtimestamp(at / 1_000, zone)
    return int(local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1_000


def _next_midnight(at: int, zone: ZoneInfo) -> int:
    local = datetime.fromtimestamp(at / 1_000, zone) + timedelta(days=1)
    return int(local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1_000
