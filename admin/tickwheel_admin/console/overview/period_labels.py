"""Periods of figures in words, and how a figure compares with the period before."""

from __future__ import annotations

from dataclasses import dataclass

from tickwheel_admin.console.frame.formatting import duration
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.services.overview.service import Period, RunFigures

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """By how much a figure differs from the period before."""

    text: str  # with its sign
    look: str  # class: better, worse, or "" for no difference


def chart_title(period: Period) -> str:
    """What the chart of outcomes shows."""
    return {
        Period.HOUR: _("Runs, last hour"),
        Period.SIX_HOURS: _("Runs, last 6 hours"),
        Period.DAY: _("Runs, last 24 hours"),
        Period.WEEK: _("Runs, last 7 days"),
        Period.MONTH: _("Runs, last 30 days"),
    }[period]


def compared_with(period: Period) -> str:
    """What the figures of a period are compared with."""
    return {
        Period.HOUR: _("Compared with the hour before"),
        Period.SIX_HOURS: _("Compared with the 6 hours before"),
        Period.DAY: _("Compared with the 24 hours before"),
        Period.WEEK: _("Compared with the 7 days before"),
        Period.MONTH: _("Compared with the 30 days before"),
    }[period]


def rate_change(figures: RunFigures) -> FigureChange | None:
    """Percentage points of the success rate; None: there is nothing to compare."""
    now, then = figures.whole, figures.former
    if not now.decided or not then.decided:
        return None
    points = round(100 * (now.succeeded / now.decided - then.succeeded / then.decided), 2)
    return FigureChange(text=_signed(points, f"{abs(points):.2f}"), look=_look(points))


def delay_change(figures: RunFigures) -> FigureChange | None:
    """Of the start delay, where less is better; None: there is nothing to compare."""
    if figures.delay is None or figures.former_delay is None:
        return None
    difference = figures.delay - figures.former_delay
    return FigureChange(
        text=_signed(difference, duration(abs(difference))), look=_look(-difference)
    )


def _signed(value: float, text: str) -> str:
    if not value:
        return f"±{text}"
    return f"{MINUS if value < 0 else '+'}{text}"


def _look(gain: float) -> str:
    if not gain:
        return ""
    return "better" if gain > 0 else "worse"
