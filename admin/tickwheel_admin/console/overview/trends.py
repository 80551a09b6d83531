"""Trends: how runs went over weeks, days or hours, and which hours of the week are full or fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import dropwhile
from typing import Any
from urllib.parse import quote

from aiohttp import web
from babel.dates import format_date

from tickwheel_admin.console.frame.charts import ColumnPart, DrawnChart, Parts, drawn_chart
from tickwheel_admin.console.frame.formatting import duration, number, short_number
from tickwheel_admin.console.frame.heat_table import (
    HeatCell,
    HeatLine,
    HeatTable,
    against_usual,
    hour_columns,
    hour_span,
)
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, set_locale
from tickwheel_admin.console.frame.rendering import render
from tickwheel_admin.console.frame.units import whole_number
from tickwheel_admin.console.runs.labels import state_name
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.domain.runs.trend import TrendBucket, TrendStep
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.overview.trends import HourOfWeek, Trends
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import SERVICES
from tickwheel_admin.web.routes import Routes

# Of the chart of runs, from the bottom up.
STATES = (RunState.SUCCEEDED, RunState.FAILED, RunState.TIMED_OUT, RunState.CANCELLED)
CHART_HEIGHT = 220
SMALL_HEIGHT = 170
ROOM = 12  # columns that would fit, so that a few of them do not become slabs
LABELLED = 8  # of the columns, about so many have a label
HOUR_MS = 3_600_000
LENGTHS_MS = {
    TrendStep.WEEK: 7 * 24 * HOUR_MS,
    TrendStep.DAY: 24 * HOUR_MS,
    TrendStep.HOUR: HOUR_MS,
}
# How many buckets there are to choose from, the usual one first.
COUNTS = {TrendStep.WEEK: (12, 26, 52), TrendStep.DAY: (28, 14, 56), TrendStep.HOUR: (48, 24)}
MONDAY = date(2024, 1, 1)

routes = Routes()


@routes.get("/trends", permission=Permission.VIEW)
async def show_trends(request: web.Request) -> web.Response:
    actor, query, services = actor_of(request), request.query, request.app[SERVICES]
    # Values that mean nothing are left aside: a bookmark may be older than what it asks for.
    step = next((each for each in TrendStep if each == query.get("step")), TrendStep.WEEK)
    asked = whole_number(query.get("count"))
    count = asked if asked in COUNTS[step] else COUNTS[step][0]
    executors = await services.executors.names(actor)
    executor_id = next((e.id for e in executors if str(e.id) == query.get("executor")), None)
    job_id = whole_number(query.get("job"))
    job = None if job_id is None else await services.jobs.get(actor, job_id)
    tag = query.get("tag", "").strip() if job is None else ""
    if job is not None:
        of = f"job={job.item.job.id}&"
    elif tag:
        of = f"tag={quote(tag)}&" + (f"executor={executor_id}&" if executor_id else "")
    else:
        of = f"executor={executor_id}&origin=no_step&" if executor_id else "origin=no_step&"
    locale = set_locale(request)
    found, problem = None, None
    try:
        found = await services.trends.get(
            actor,
            step=step,
            executor_id=executor_id,
            job_id=job_id,
            tag=tag or None,
            from_at=max(0, locale.now_at - (count - 1) * LENGTHS_MS[step]),
            zone=locale.timezone,
        )
    except InvalidInput as error:  # somebody sees more executors than are added up
        problem = error.problems[0]
    set_locale(request)
    return await render(
        request,
        "overview/trends.html",
        {
            "step": step,
            "steps": list(COUNTS),
            "count": count,
            "counts": sorted(COUNTS[step]),
            "executors": executors,
            "executor_id": executor_id,
            "job": None if job is None else job.item.job,
            "tag": tag,
            "tags": [] if job is not None else await services.suggestions.values(actor, "tag", ""),
            "trends": found,
            "problem": problem,
            **({} if found is None else _drawn(found, of)),
        },
    )


def _drawn(trends: Trends, of: str) -> dict[str, Any]:
    """The charts.

    Args:
        of: the filter of the list of runs that shows those of the executor or the job.
    """
    every = -(-len(trends.buckets) // LABELLED)
    week = trends.week
    return {
        "charts": [
            _chart(trends, of, _("Runs by outcome"), _outcomes, short_number, CHART_HEIGHT),
            _chart(trends, of, _("Duration"), _durations, _on_axis, SMALL_HEIGHT),
            _chart(trends, of, _("Start delay"), _delays, _on_axis, SMALL_HEIGHT),
        ],
        "labelled": list(range(0, len(trends.buckets), every)),
        "label_pattern": "minute" if trends.step is TrendStep.HOUR else "date",
        # Before the first run there is nothing to read.
        "told": list(dropwhile(lambda each: not each.total, trends.buckets)),
        "full_hours": None if week is None else _week(week, lambda hour: hour.runs),
        "failing_hours": None
        if week is None or not trends.whole.failures
        else _week(week, lambda hour: hour.failures),
    }


def _chart(
    trends: Trends,
    of: str,
    title: str,
    parts_of: Callable[[TrendBucket], Parts],
    tick: Callable[[float], str],
    height: int,
) -> DrawnChart:
    return drawn_chart(
        title,
        [
            (each.start_at, f"/runs?{of}from={each.start_at}&to={each.end_at}", parts_of(each))
            for each in trends.buckets
        ],
        parts_of(trends.whole),
        tick=tick,
        height=height,
        room=ROOM,
    )


def _outcomes(bucket: TrendBucket) -> Parts:
    counts = [(state, getattr(bucket, state.value)) for state in STATES]
    return [
        ColumnPart(state.value, state_name(state), count, number(count)) for state, count in counts
    ]


def _durations(bucket: TrendBucket) -> Parts:
    return _times(bucket.durations)


def _delays(bucket: TrendBucket) -> Parts:
    return _times(bucket.delays)


def _times(times: TimeHistogram) -> Parts:
    """Half of the runs stayed below the lower part, 95 % below the top."""
    middle, most = times.quantile(0.5), times.quantile(0.95)
    return [
        ColumnPart("p50", "p50", middle or 0, duration(middle)),
        ColumnPart("p95", "p95", (most or 0) - (middle or 0), duration(most)),
    ]


def _on_axis(ms: float) -> str:
    text = duration(ms) if ms else ""
    return text.replace(" ", "") if REQUEST_LOCALE.get().is_chinese else text


def _week(
    week: Sequence[Sequence[HourOfWeek]],
    count_of: Callable[[HourOfWeek], int],
) -> HeatTable:
    counts = [[count_of(hour) for hour in day] for day in week]
    level = against_usual(counts)
    return HeatTable(
        columns=hour_columns(),
        lines=tuple(
            HeatLine(
                name=_weekday(place),
                cells=tuple(
                    HeatCell(
                        count=count,
                        level=level(count),
                        when=f"{_weekday(place)} {hour_span(hour, 0, 60)}",
                        text=number(count),
                    )
                    for hour, count in enumerate(day)
                ),
                count=sum(day),
            )
            for place, day in enumerate(counts)
        ),
    )


def _weekday(number: int) -> str:
    day = MONDAY + timedelta(days=number)
    return str(format_date(day, "EEE", locale=REQUEST_LOCALE.get().language))
