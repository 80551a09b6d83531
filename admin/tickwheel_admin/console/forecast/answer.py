"""What a forecast says: what matters first, both sides in numbers and as columns, and its basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.console.frame.charts import ColumnPart, DrawnChart, Parts, drawn_chart
from tickwheel_admin.console.frame.consequences import Consequence
from tickwheel_admin.console.frame.formatting import duration, number, percent, short_number
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.services.forecast.service import ForecastHour, ForecastSide, WhatIf

HEIGHT = 150  # of a chart
MOST_COLUMNS = 48  # beyond, each stands for several hours
LABELLED = 6  # of the columns of hours, about so many have a label; of days, each has one
SHOWN_INSTANTS = 3  # of the fires of a job that go or come
HOURS_ANCHOR = "what-if-hours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number on both sides."""

    name: str
    before: str
    after: str
    look: str  # "better", "worse", or "" if it is the same or neither
    spread: str | None = None  # with the better minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """Some hours together."""

    at: int
    fires: int
    skipped: int
    busy: int  # most slots in use at once
    usual: float  # slots in use on average
    waiting: int


def drawn(found: WhatIf) -> dict[str, Any]:
    """All that the template shows of an answer."""
    compared = found.comparison
    before, after, spread = compared.before, compared.after, compared.with_spread
    every = max(1, -(-len(before.hours) // MOST_COLUMNS))
    columns = len(before.hours[::every])
    tells_days = len(before.hours) > MOST_COLUMNS
    step = max(1, 24 // every) if tells_days else -(-columns // LABELLED)
    return {
        "compared": compared,
        "findings": _findings(found),
        "figures": _figures(before, after, spread),
        "pairs": [
            [
                _chart(side, title, parts, every, least=max(most(each) for each in both))
                for side in both
            ]
            for title, parts, most in (
                (_("Fires"), _fires, _most_fires(every)),
                (_("Slots in use"), _slots, _most_slots(every)),
                (_("Runs that wait for a slot"), _waiting, _most_waiting),
            )
            for both in [(before, after)]
            if any(most(each) for each in both)
        ],
        "labelled": list(range(0, columns, step)) if columns else [],
        "label_pattern": "date" if tells_days else "minute",
        "hours_of_both": list(zip(before.hours, after.hours, strict=False)),
        "hours_anchor": HOURS_ANCHOR,
        "shown_instants": SHOWN_INSTANTS,
        "after_full": duration(after.full_ms),
        "spread_full": duration(None if spread is None else spread.full_ms),
        "measured": percent(
            compared.basis.measured_jobs,
            compared.basis.measured_jobs + compared.basis.assumed_jobs,
        ),
    }


def _findings(found: WhatIf) -> list[Consequence]:
    compared = found.comparison
    before, after = compared.before, compared.after
    told = []
    if before.slots and not after.slots:
        told.append(Consequence(text=_("No node is left that could run anything."), look="bad"))
    starving = sum(each.starves for each in compared.jobs)
    if starving:
        text = _("Jobs that only others start, and that would not run any more: %(n)s")
        told.append(Consequence(text=text % {"n": number(starving)}, look="bad"))
    for text, was, is_now, tell in (
        (_("Missed deadlines: %(after)s instead of %(before)s"), before.missed, after.missed,
         number),
        (_("Skipped fires: %(after)s instead of %(before)s"), _skipped(before), _skipped(after),
         number),
        (_("Runs that start more than a minute late: %(after)s instead of %(before)s"),
         before.late, after.late, number),
        (_("Time without a free slot: %(after)s instead of %(before)s"),
         before.full_ms, after.full_ms, duration),
    ):  # fmt: skip
        if was != is_now:
            values = {"before": tell(was), "after": tell(is_now)}
            look = "bad" if is_now > was else "ok"
            told.append(Consequence(text=text % values, look=look))
    if compared.fires_gone or compared.fires_new:
        text = _("Fires: %(gone)s go and %(new)s come") % {
            "gone": number(compared.fires_gone),
            "new": number(compared.fires_new),
        }
        told.append(Consequence(text=text, look=""))
    return told


def _figures(
    before: ForecastSide, after: ForecastSide, spread: ForecastSide | None
) -> list[tuple[str, list[Figure]]]:
    """Groups of numbers with their names."""

    def figure(
        name: str,
        of: Callable[[ForecastSide], float | None],
        tell: Callable[[float], str] = number,
        *,
        less_is_better: bool = True,
    ) -> Figure:
        was, is_now = of(before), of(after)
        look = ""
        if less_is_better and was is not None and is_now is not None and was != is_now:
            look = "better" if is_now < was else "worse"
        then = None if spread is None else of(spread)
        return Figure(
            name=name,
            before="–" if was is None else tell(was),
            after="–" if is_now is None else tell(is_now),
            look=look,
            spread=None if spread is None else "–" if then is None else tell(then),
        )

    return [
        (
            _("What runs"),
            [
                figure(_("Fires"), lambda side: side.fires, less_is_better=False),
                figure(_("Runs"), lambda side: side.runs, less_is_better=False),
                figure(_("Skipped fires"), _skipped),
                figure(_("Failed runs"), lambda side: side.failed, less_is_better=False),
                figure(_("Missed deadlines"), lambda side: side.missed),
            ],
        ),
        (
            _("When it starts"),
            [
                figure(_("Start delay p50"), lambda side: side.delay_p50_ms, duration),
                figure(_("Start delay p95"), lambda side: side.delay_p95_ms, duration),
                figure(_("More than a minute late"), lambda side: side.late),
                figure(_("Most runs that wait at once"), lambda side: side.most_waiting),
            ],
        ),
        (
            _("Slots"),
            [
                figure(_("Slots"), lambda side: side.slots, less_is_better=False),
                figure(
                    _("No slot free"),
                    lambda side: side.full_ms if side.slots else None,
                    duration,
                ),
            ],
        ),
        (
            _("If every run is as slow as the slowest of twenty"),
            [
                figure(_("Start delay p95"), lambda side: side.slow_delay_p95_ms, duration),
                figure(_("Skipped fires"), lambda side: side.slow_skipped),
                figure(_("Missed deadlines"), lambda side: side.slow_missed),
            ],
        ),
    ]


def _skipped(side: ForecastSide) -> int:
    return sum(side.skipped.values())


def _chart(
    side: ForecastSide,
    title: str,
    parts_of: Callable[[Sequence[_Column]], Parts],
    every: int,
    *,
    least: float,
) -> DrawnChart:
    columns = _columns(side, every)
    return drawn_chart(
        title,
        [(each.at, f"#{HOURS_ANCHOR}", parts_of([each])) for each in columns],
        parts_of(columns),
        tick=short_number,
        height=HEIGHT,
        room=24,
        least=least,
    )


def _columns(side: ForecastSide, every: int) -> list[_Column]:
    parts = (side.hours[first : first + every] for first in range(0, len(side.hours), every))
    return [_column(part, side.slots) for part in parts]


def _column(hours: Sequence[ForecastHour], slots: int) -> _Column:
    return _Column(
        at=hours[0].at,
        fires=sum(hour.fires for hour in hours),
        skipped=sum(hour.skipped for hour in hours),
        busy=max(hour.busy for hour in hours),
        usual=sum(hour.busy_share for hour in hours) / len(hours) * slots,
        waiting=max(hour.waiting for hour in hours),
    )


def _fires(columns: Sequence[_Column]) -> Parts:
    fires = sum(each.fires for each in columns)
    return [ColumnPart("p50", _("fires"), fires, number(fires))]


def _slots(columns: Sequence[_Column]) -> Parts:
    usual = sum(each.usual for each in columns) / len(columns) if columns else 0.0
    most = max((each.busy for each in columns), default=0)
    return [
        ColumnPart("p50", _("on average"), usual, number(round(usual, 1))),
        ColumnPart("p95", _("at most"), max(most - usual, 0), number(most)),
    ]


def _waiting(columns: Sequence[_Column]) -> Parts:
    most = max((each.waiting for each in columns), default=0)
    return [ColumnPart("queued", _("at most"), most, number(most))]


def _most_fires(every: int) -> Callable[[ForecastSide], float]:
    return lambda side: max((each.fires for each in _columns(side, every)), default=0)


def _most_slots(every: int) -> Callable[[ForecastSide], float]:
    return lambda side: max((max(each.busy, each.usual) for each in _columns(side, every)),
                            default=0)  # fmt: skip


def _most_waiting(side: ForecastSide) -> float:
    return side.most_waiting
