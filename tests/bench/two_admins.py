"""A second admin over one database: how many times as many runs a second both do together."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from tests.bench.bed import NODES, SLOTS, Bed, made
from tests.bench.flood import Flood, cpu_of, flood, rate_of
from tests.support.polling import wait_until

WARM_UP_RUNS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoAdmins:
    """Medians of floods with one admin, and of those with two, before and after."""

    one_runs_per_second: int
    one_cpu_us_per_run: dict[str, int]
    runs_per_second: int
    cpu_us_per_run: dict[str, int]
    ratio: float  # of the two rates


def two_admins(kind: str, *, runs: int, repeats: int) -> TwoAdmins:
    """Flood two admins that both nodes are connected to, one of them alone, and both again."""
    with made(kind, nodes=0) as bed:
        first, second = bed.cluster.admins[0], bed.cluster.start_admin("admin-2")
        for number in range(1, NODES + 1):
            urls = f"{first.url},{second.url}"
            bed.cluster.start_node(f"node-{number}", slots=SLOTS, admins=urls)
        _wait_for_connections(bed, 2)
        together = _floods(bed, runs, -(-repeats // 2))
        second.process.stop()
        alone = _floods(bed, runs, repeats)
        bed.cluster.start_admin("admin-2", port=second.port)
        _wait_for_connections(bed, 3)
        together += _floods(bed, runs, repeats - repeats // 2)
    return TwoAdmins(
        one_runs_per_second=rate_of(alone),
        one_cpu_us_per_run=cpu_of(alone),
        runs_per_second=rate_of(together),
        cpu_us_per_run=cpu_of(together),
        ratio=round(
            statistics.median(each.runs_per_second for each in together)
            / statistics.median(each.runs_per_second for each in alone),
            2,
        ),
    )


def _wait_for_connections(bed: Bed, count: int) -> None:
    """Until every node has been connected so often, to any admin."""
    wait_until(
        lambda: all(
            node.process.output().count("connected to admin") >= count for node in bed.cluster.nodes
        ),
        timeout_seconds=60,
        what=f"every node has been connected {count} times",
    )


def _floods(bed: Bed, runs: int, count: int) -> list[Flood]:
    bed.wait_until_calm()
    flood(bed, job_id=bed.noop_job, runs=WARM_UP_RUNS)
    return [flood(bed, job_id=bed.noop_job, runs=runs) for _ in range(count)]
