"""Charts as numbers: where each bar, tick and dot of a server-made SVG lies.

Horizontal positions are per cent of the width, vertical ones pixels of a fixed height, so a chart
needs neither a script nor a style attribute to fit its card.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tickwheel_admin.services.jobs.service import RunSummary

TOP = 8  # room above the highest grid line, so that its label is not cut
LABELS = 24  # room below the base line for the labels of the time axis


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSegment:
    """One coloured part of a stacked column."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column and the room around it, in per cent of the width."""

    x: float
    width: float
    bar_x: float
    bar_width: float
    segments: tuple[ColumnSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A column chart."""

    height: int
    base: int  # y of the zero line
    ticks: tuple[tuple[float, float], ...]  # value, y
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """A part of a column with its words, from the bottom up."""

    kind: str  # class
    name: str
    height: float
    text: str  # the amount


Parts = Sequence[ColumnPart]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBucket:
    """What a column stands for: where it leads, and its amounts as (class, name, text)."""

    column: Column
    start_at: int
    href: str
    rows: tuple[tuple[str, str, str], ...]

    @property
    def text(self) -> str:
        """The amounts for whoever does not see the column."""
        return ", ".join(f"{name} {amount}" for _kind, name, amount in self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnChart:
    """Columns, each with its words, and an axis with its labels."""

    title: str
    legend: tuple[tuple[str, str, str], ...]  # of all buckets: (class, name, text)
    height: int
    base: int
    ticks: tuple[tuple[str, float], ...]
    buckets: tuple[DrawnBucket, ...]


def column_chart(
    values: Sequence[Sequence[tuple[str, float]]],
    *,
    height: int,
    bar: float = 0.72,
    room: int = 1,
    least: float = 0,
) -> Chart:
    """Stacked columns; each value is (kind, amount) from the bottom up.

    Args:
        bar: share of a column's room that its bar takes.
        room: columns that would fit the width, so that a few of them do not become slabs.
        least: what the axis reaches at least, so that two charts can be compared.
    """
    base = height - LABELS
    highest = max((sum(amount for _, amount in parts) for parts in values), default=0)
    highest = max(highest, least)
    step, count = _axis(highest)
    top_value = step * count
    scale = (base - TOP) / top_value
    width = 100 / max(len(values), room)
    columns = []
    for index, parts in enumerate(values):
        y = float(base)
        segments = []
        for kind, amount in parts:
            if amount <= 0:
                continue
            tall = max(amount * scale, 1.5)  # a single failure among thousands must be seen
            y -= tall
            segments.append(ColumnSegment(kind=kind, y=round(y, 1), height=round(tall, 1)))
        columns.append(
            Column(
                x=round(index * width, 3),
                width=round(width, 3),
                bar_x=round((index + (1 - bar) / 2) * width, 3),
                bar_width=round(width * bar, 3),
                segments=tuple(segments),
            )
        )
    ticks = tuple((step * n, round(base - step * n * scale, 1)) for n in range(count + 1))
    return Chart(height=height, base=base, ticks=ticks, columns=tuple(columns))


def drawn_chart(
    title: str,
    buckets: Sequence[tuple[int, str, Parts]],
    whole: Parts,
    *,
    tick: Callable[[float], str],
    height: int,
    room: int = 1,
    least: float = 0,
) -> DrawnChart:
    """A column chart with its words.

    Args:
        buckets: start (UTC epoch ms), address and parts of each column.
        whole: the parts of all of them, for the legend.
        tick: makes the text of a value on the axis.
        room, least: as of `column_chart`.
    """
    chart = column_chart(
        [[(each.kind, each.height) for each in parts] for _, _, parts in buckets],
        height=height,
        room=room,
        least=least,
    )
    return DrawnChart(
        title=title,
        legend=_rows(whole),
        height=chart.height,
        base=chart.base,
        ticks=tuple((tick(value), y) for value, y in chart.ticks),
        buckets=tuple(
            DrawnBucket(column=column, start_at=start_at, href=href, rows=_rows(parts))
            for column, (start_at, href, parts) in zip(chart.columns, buckets, strict=True)
        ),
    )


def _rows(parts: Parts) -> tuple[tuple[str, str, str], ...]:
    return tuple((each.kind, each.name, each.text) for each in parts)


def strip_data(marks: Iterable[RunSummary]) -> str:
    """Runs as the script that draws a strip reads them. A list has more than a thousand of them,
    and in a template that took half of the time of the page."""
    return ";".join(
        f"{mark.id},{mark.state},{mark.duration_ms or 0},{mark.started_at or mark.scheduled_at}"
        for mark in marks
    )


def trend(values: Sequence[float], *, low: float = 0) -> tuple[str, str]:
    """Paths of a line and of the area under it, in a box of 100 × 28."""
    if len(values) < 2:
        values = [low, low]
    high = max(max(values), low + 1e-9)
    points = [
        (100 * index / (len(values) - 1), 26 - 22 * (value - low) / (high - low))
        for index, value in enumerate(values)
    ]
    line = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return line, f"{line}L100,28L0,28Z"


def _axis(highest: float) -> tuple[float, int]:
    """Step and number of steps of an axis with round labels that reaches the highest value."""
    if highest <= 4:
        return 1.0, max(math.ceil(highest), 1)
    rough = highest / 4
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)
    if step < 1 or step != int(step):
        step = math.ceil(step)
    return float(step), math.ceil(highest / step)
