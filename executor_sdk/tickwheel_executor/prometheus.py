"""The metrics of an executor for prometheus-client, which the service itself has installed.

from prometheus_client import REGISTRY
REGISTRY.register(ExecutorCollector(executor))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tickwheel_executor.executor import Executor

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_PREFIX = "tickwheel_executor"


class ExecutorCollector:
    """Answers each scrape with `executor.metrics()`; keeps nothing itself."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def describe(self) -> list[Metric]:
        """Nothing, so that a registry does not call `collect` to learn the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric, labelled with the name of the executor."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        now, name = self._executor.metrics(), self._executor.settings.executor
        for metric, told, total in (
            ("attempts_started", "Attempts that were accepted.", now.started),
            ("attempt_seconds", "Time that ended attempts took together.", now.ended_seconds),
        ):
            counter = CounterMetricFamily(f"{_PREFIX}_{metric}", told, labels=["executor"])
            counter.add_metric([name], total)
            yield counter
        for metric, told, label, totals in (
            ("attempts_ended", "Attempts, by outcome.", "outcome", now.ended),
            ("attempts_refused", "Attempts not started, by reason.", "reason", now.refused),
        ):
            labels = ["executor", label]
            yield _filled(
                CounterMetricFamily(f"{_PREFIX}_{metric}", told, labels=labels), name, totals
            )
        for metric, told, number in (
            ("attempts_running", "Attempts in flight.", now.running),
            ("slots", "Attempts that may be in flight.", now.slots),
            ("results_unreported", "Results that no admin has confirmed.", now.unreported),
            ("spool_works", "Whether results can be saved on disk.", int(now.spool_works)),
        ):
            gauge = GaugeMetricFamily(f"{_PREFIX}_{metric}", told, labels=["executor"])
            gauge.add_metric([name], number)
            yield gauge
        connected = GaugeMetricFamily(
            f"{_PREFIX}_admin_connected",
            "Whether the node is connected to this admin.",
            labels=["executor", "admin"],
        )
        yield _filled(connected, name, now.admins)


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, name: str, numbers: Mapping[str, int]
) -> Metric:
    for value, number in numbers.items():
        family.add_metric([name, value], number)
    return family
