"""Families of series as text, in the two formats that Prometheus reads.

Written here and not by the Prometheus library, which spends ten times as long on thousands of
series: the text of a series is made once, and kept as long as the series is shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tickwheel_admin.services.metrics.definitions import Metric
from tickwheel_admin.services.metrics.histogram import Histogram

Labels = tuple[str, ...]  # values, in the order of the metric's labels


@dataclass(frozen=True, slots=True)
class Family:
    """The series of one metric: numbers, or histograms if the metric is one."""

    metric: Metric
    numbers: list[tuple[Labels, float]] = field(default_factory=list)
    histograms: list[tuple[Labels, Histogram]] = field(default_factory=list)

    def add(self, labels: Labels, number: float) -> None:
        """Add a series that is one number."""
        self.numbers.append((labels, number))

    def add_histogram(self, labels: Labels, histogram: Histogram) -> None:
        """Add the series of one histogram."""
        self.histograms.append((labels, histogram))


class SeriesText:
    """Writes families, and remembers the series of those that it wrote last. For any thread."""

    def __init__(self) -> None:
        self._starts: dict[str, dict[Labels, tuple[str, ...]]] = {}  # of lines, by metric

    @property
    def remembered(self) -> int:
        """How many series it remembers: as many as the last page had."""
        return sum(map(len, self._starts.values()))

    def write(self, families: Iterable[Family], *, open_metrics: bool) -> str:
        """The lines of these families; OpenMetrics' last one, `# EOF`, is not among them."""
        lines: list[str] = []
        for family in families:
            metric = family.metric
            lines.append(_head(metric, open_metrics=open_metrics))
            known = self._starts.get(metric.name, {})
            shown: dict[Labels, tuple[str, ...]] = {}
            for labels, number in family.numbers:
                starts = shown[labels] = known.get(labels) or _starts(metric, labels)
                lines.append(f"{starts[0]}{number}\n")
            for labels, histogram in family.histograms:
                starts = known.get(labels) or _histogram_starts(metric, labels, histogram)
                shown[labels] = starts
                up_to = histogram.up_to_bounds()
                numbers: list[float] = [*up_to, histogram.total, up_to[-1]]
                lines += [
                    f"{start}{number}\n" for start, number in zip(starts, numbers, strict=True)
                ]
            self._starts[metric.name] = shown
        return "".join(lines)


def _head(metric: Metric, *, open_metrics: bool) -> str:
    name, meaning = metric.name, metric.help.replace("\\", r"\\").replace("\n", r"\n")
    if open_metrics:
        name, meaning = name.removesuffix("_total"), meaning.replace('"', r"\"")
    return f"# HELP {name} {meaning}\n# TYPE {name} {metric.kind.value}\n"


def _starts(metric: Metric, labels: Labels) -> tuple[str, ...]:
    return (_start(metric.name, _pairs(metric, labels)),)


def _histogram_starts(metric: Metric, labels: Labels, histogram: Histogram) -> tuple[str, ...]:
    pairs = _pairs(metric, labels)
    bounds = (*map(str, histogram.bounds), "+Inf")
    return (
        *(_start(f"{metric.name}_bucket", [*pairs, f'le="{bound}"']) for bound in bounds),
        _start(f"{metric.name}_sum", pairs),
        _start(f"{metric.name}_count", pairs),
    )


def _start(name: str, pairs: list[str]) -> str:
    return f"{name}{{{','.join(pairs)}}} " if pairs else f"{name} "


def _pairs(metric: Metric, labels: Labels) -> list[str]:
    return [f'{name}="{_escaped(of)}"' for name, of in zip(metric.labels, labels, strict=True)]


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
