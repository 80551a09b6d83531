"""Our text of series says in both formats what the Prometheus library reads from it."""

from __future__ import annotations

import pytest
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from tickwheel_admin.services.metrics.definitions import Kind, Metric
from tickwheel_admin.services.metrics.histogram import Histogram
from tickwheel_admin.services.metrics.text import Family, SeriesText

HOSTILE = 'a"b\\c\nd}{,= 火 \\n'
RUNS = Metric("x_runs_total", Kind.COUNTER, 'Runs "of"\na \\ kind', ("executor", "outcome"))
AGE = Metric("x_age_seconds", Kind.GAUGE, "Age")
TOOK = Metric("x_took_seconds", Kind.HISTOGRAM, "Took", ("executor",))


def read(text: str, of_open_metrics: bool) -> dict[str, dict[tuple[str, ...], float]]:
    if of_open_metrics:
        found = open_metrics.text_string_to_metric_families(text + "# EOF\n")  # type: ignore[no-untyped-call]
    else:
        found = text_string_to_metric_families(text)
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    for family in found:
        assert family.name == family.name.removesuffix("_total")
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return samples


@pytest.mark.parametrize("of_open_metrics", [False, True])
def test_both_formats_are_read_as_they_are_meant(of_open_metrics: bool) -> None:
    texts = SeriesText()

    def shown(*families: Family) -> dict[str, dict[tuple[str, ...], float]]:
        return read(texts.write(families, open_metrics=of_open_metrics), of_open_metrics)

    took = Histogram((0.5, 2.0))
    for seconds in (0.25, 0.5, 1, 100):
        took.add(seconds)
    series = [((HOSTILE, "lost"), 3), (("b", "lost"), 12_345_678_901)]
    first = shown(
        Family(RUNS, [*series]),
        Family(AGE, [((), 1.5e-07)]),
        Family(TOOK, histograms=[((HOSTILE,), took)]),
    )
    assert first == {
        "x_runs_total": dict(series),
        "x_age_seconds": {(): 1.5e-07},
        "x_took_seconds_bucket": {
            (HOSTILE, "0.5"): 2, (HOSTILE, "2.0"): 3, (HOSTILE, "+Inf"): 4,
        },
        "x_took_seconds_sum": {(HOSTILE,): 101.75},
        "x_took_seconds_count": {(HOSTILE,): 4},
    }  # fmt: skip

    # What is remembered of a page says nothing of the next one but its names.
    again = shown(Family(RUNS, [(("b", "lost"), 4)]), Family(TOOK), Family(AGE, [((), -2)]))
    assert again == {"x_runs_total": {("b", "lost"): 4}, "x_age_seconds": {(): -2}}
    assert texts.remembered == 2


@pytest.mark.parametrize(("of_open_metrics", "name"), [(True, "x_runs"), (False, "x_runs_total")])
def test_each_format_has_its_name_for_a_counter(of_open_metrics: bool, name: str) -> None:
    text = SeriesText().write([Family(RUNS)], open_metrics=of_open_metrics)
    assert f"# TYPE {name} counter\n" in text
