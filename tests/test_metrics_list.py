"""docs/metrics.md lists every metric with its kind, labels, scope and meaning, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tickwheel_admin.services.metrics.definitions import METRICS

DOCS = Path(__file__).parents[1] / "docs" / "metrics.md"
_ROW = re.compile(r"^\| `(tickwheel_\w+)` \| (\w+) \| ([^|]*) \| (\w+) \| (.+) \|$", re.MULTILINE)


def test_every_metric_is_documented() -> None:
    documented = {
        name: (kind, re.findall(r"`(\w+)`", labels), scope, meaning.partition(". ")[0])
        for name, kind, labels, scope, meaning in _ROW.findall(DOCS.read_text(encoding="utf-8"))
    }

    assert documented == {
        metric.name: (metric.kind.value, list(metric.labels), metric.scope.value, metric.help)
        for metric in METRICS
    }


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"tickwheel_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind.value == "counter"), metric.name
        assert not re.search("_(ms|milliseconds|minutes|kb)(_|$)", metric.name), metric.name
        assert metric.help
        assert not metric.help.endswith(".")
