"""The first page: how things are, what runs, what failed, what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from aiohttp import web

from tickwheel_admin.console.frame.charts import ColumnPart, Parts, drawn_chart, trend
from tickwheel_admin.console.frame.formatting import number, short_number
from tickwheel_admin.console.frame.locale import REQUEST_LOCALE, set_locale
from tickwheel_admin.console.frame.rendering import BLOCK_HEADER, render
from tickwheel_admin.console.overview.attention_labels import SHOWN, concern_rows
from tickwheel_admin.console.overview.period_labels import (
    chart_title,
    compared_with,
    delay_change,
    rate_change,
)
from tickwheel_admin.console.overview.timeline import ticks, timeline_of
from tickwheel_admin.console.runs.labels import state_name
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.users.user import Permission
from tickwheel_admin.services.overview.service import (
    EVERYTHING,
    MAX_FREQUENT,
    OutcomeBucket,
    OverviewPart,
    Period,
    RunFigures,
)
from tickwheel_admin.web.identity import actor_of
from tickwheel_admin.web.keys import CONFIG, SERVICES
from tickwheel_admin.web.routes import Routes

# Of the outcome chart, from the bottom up: class and name.
KINDS = (
    ("succeeded", RunState.SUCCEEDED),
    ("failed", RunState.FAILED),
    ("timed_out", RunState.TIMED_OUT),
    ("other", RunState.CANCELLED),
)
CHART_HEIGHT = 260
# Columns that begin with so many of their lengths of the reader's clock have a label, written so.
LABELS = {
    Period.HOUR: (10, "minute"),
    Period.SIX_HOURS: (6, "minute"),
    Period.DAY: (6, "minute"),
    Period.WEEK: (8, "date"),
    Period.MONTH: (8, "date"),
}
# What a block of an open page wants. Whoever asks for any other gets the page with everything.
PARTS = {
    "tiles": {OverviewPart.COUNTS, OverviewPart.FIGURES},
    "chart": {OverviewPart.FIGURES},
    "lanes": {OverviewPart.NEXT},
    "running": {OverviewPart.RUNNING},
    "failures": {OverviewPart.FAILURES},
    "pause": set(),
}

routes = Routes()


@routes.get("/", permission=Permission.VIEW)
async def show_overview(request: web.Request) -> web.Response:
    actor, block = actor_of(request), request.headers.get(BLOCK_HEADER, "")
    if block == "attention":
        return await render(request, "overview/page.html", await _attention(request))
    period = _period(request.query.get("p", ""))
    data = await request.app[SERVICES].overview.get(
        actor,
        period,
        parts=PARTS.get(block, EVERYTHING),
        zone_offset_ms=_zone_offset_ms(request),
    )
    if data.first_steps:
        executors = await request.app[SERVICES].executors.list(actor)
        return await render(
            request,
            "overview/first_steps.html",
            {"executors": executors, "admin_url": request.app[CONFIG].public_url},
        )
    set_locale(request)
    return await render(
        request,
        "overview/page.html",
        {
            "data": data,
            "period": period,
            "periods": list(Period),
            "here": "/" if period is Period.DAY else f"/?p={period}",
            **({} if data.figures is None else _drawn(data.figures, _zone_offset_ms(request))),
            "timeline": await timeline_of(request, data.next_jobs),
            "ticks": ticks(),
            "most_rates": MAX_FREQUENT,
            **(await _attention(request) if block not in PARTS else {}),
        },
    )


def _drawn(figures: RunFigures, zone_offset_ms: int) -> dict[str, Any]:
    """The figures as tiles and chart."""
    buckets = figures.buckets
    over = buckets[:-1]  # the last one is not over
    shares = [b.succeeded / b.decided if b.decided else 1.0 for b in over]
    columns, pattern = LABELS[figures.period]
    every_ms = columns * figures.period.bucket_ms
    length_ms = figures.period.bucket_ms
    runs = "/runs?from={}&to={}&origin=no_step"
    return {
        "figures": figures,
        "chart": drawn_chart(
            chart_title(figures.period),
            [
                (
                    each.start_at,
                    runs.format(each.start_at, each.start_at + length_ms),
                    _outcomes(each),
                )
                for each in buckets
            ],
            _outcomes(figures.whole),
            tick=short_number,
            height=CHART_HEIGHT,
        ),
        "labelled": [
            place
            for place, bucket in enumerate(buckets[:-1])
            if (bucket.start_at + zone_offset_ms) % every_ms == 0
        ],
        "label_pattern": pattern,
        "compared_with": compared_with(figures.period),
        "rate_change": rate_change(figures),
        "delay_change": delay_change(figures),
        "trends": {
            "all": trend([bucket.total for bucket in over]),
            "succeeded": trend(shares, low=min([0.5, *shares])),
            "failed": trend([bucket.failures for bucket in over]),
            "delay": trend(_filled(figures.delays)),
        },
    }


def _outcomes(bucket: OutcomeBucket) -> Parts:
    counts = [(kind, state, getattr(bucket, kind)) for kind, state in KINDS]
    return [
        ColumnPart(kind, state_name(state), count, number(count)) for kind, state, count in counts
    ]


async def _attention(request: web.Request) -> dict[str, Any]:
    """What needs attention; nothing else of the overview has to be read for it."""
    looked = await request.app[SERVICES].attention.look(actor_of(request))
    set_locale(request)
    return {"concerns": concern_rows(looked.concerns), "shown_concerns": SHOWN, "looked": looked}


def _period(text: str) -> Period:
    # Values that mean nothing are left aside: a bookmark may be older than what it asks for.
    return Period(text) if text in frozenset(Period) else Period.DAY


def _zone_offset_ms(request: web.Request) -> int:
    """How far the reader's clock is ahead of UTC now."""
    zone, now_at = set_locale(request).zone, REQUEST_LOCALE.get().now_at
    offset = datetime.fromtimestamp(now_at / 1000, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds() * 1000)


def _filled(values: Sequence[int | None]) -> list[int]:
    """A line without gaps: where nothing started, as before."""
    line, last = [], 0
    for value in values:
        last = last if value is None else value
        line.append(last)
    return line
