"""Executors of XXL-JOB: floods, lateness, and what one that hangs costs the others.

    python -m tests.bench.scenarios.xxl [--database mariadb] [--only flood]

Each run is a call of its own over HTTP, and afterwards one for its log; nothing of that can be sent
in batches.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.scenarios.flood import cpu_of, flood, rate_of
from tests.bench.scenarios.steady import Steady, steady
from tests.bench.testbed.bed import KINDS, Bed
from tests.bench.testbed.measure import cpu_us_per_run, peak_mebibytes, resident_mebibytes
from tests.bench.testbed.queued_runs import Share, queue_runs
from tests.bench.testbed.xxl_bed import hanging_executor, made_xxl, unread_logs
from tests.support.polling import wait_until

WARM_UP_RUNS = 500
LOGS_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlFlood:
    """Medians of the repeats; until all runs have ended, and until their logs are here, too."""

    runs: int
    runs_per_second: int
    runs_per_second_all: list[int]
    cpu_us_per_run: dict[str, int]
    with_logs_runs_per_second: int
    with_logs_cpu_us_per_run: dict[str, int]
    before_mebibytes: float  # of the admin, before the first
    peak_mebibytes: int  # of the admin, at any time


@dataclass(frozen=True, slots=True, kw_only=True)
class XxlHang:
    """Lateness of an executor's runs, without and with another one that hangs."""

    fires_per_second: int
    waiting: int  # runs of the one that hangs
    alone_p50_ms: int
    alone_p99_ms: int
    alone_max_ms: int
    beside_p50_ms: int
    beside_p99_ms: int
    beside_max_ms: int
    alone_cpu_share: dict[str, float]
    beside_cpu_share: dict[str, float]
    alone_mebibytes: float  # of the admin, afterwards
    beside_mebibytes: float


def xxl_flood(kind: str, *, runs: int, repeats: int) -> XxlFlood:
    """Queue runs that do nothing, all due at one instant."""
    floods = []
    rates: list[float] = []
    costs: list[dict[str, int]] = []
    with made_xxl(kind) as bed:
        flood(bed, job_id=bed.noop_job, runs=WARM_UP_RUNS)
        _wait_for_logs(bed)
        admin = bed.cluster.admins[0].process.pid
        before_mebibytes = resident_mebibytes(admin)
        for _ in range(repeats):
            bed.wait_until_calm()
            before, began = bed.cpu_seconds(), time.monotonic()
            done = flood(bed, job_id=bed.noop_job, runs=runs)
            ended = time.monotonic()
            _wait_for_logs(bed)
            floods.append(done)
            rates.append(runs / (done.seconds + time.monotonic() - ended))
            costs.append(cpu_us_per_run(before, bed.cpu_seconds(), runs))
            print(f"    {time.monotonic() - began:.1f} s: {done}", file=sys.stderr)
        return XxlFlood(
            runs=runs,
            runs_per_second=rate_of(floods),
            runs_per_second_all=[round(each.runs_per_second) for each in floods],
            cpu_us_per_run=cpu_of(floods),
            with_logs_runs_per_second=round(statistics.median(rates)),
            with_logs_cpu_us_per_run={
                name: round(statistics.median(each[name] for each in costs)) for name in costs[0]
            },
            before_mebibytes=before_mebibytes,
            peak_mebibytes=peak_mebibytes(admin),
        )


def xxl_steady(kind: str, *, fires_per_second: int, seconds: int) -> Steady:
    """Lateness through the bridge; a run has started when its executor has answered the call."""
    with made_xxl(kind) as bed:
        flood(bed, job_id=bed.noop_job, runs=WARM_UP_RUNS)
        return steady(bed, fires_per_second=fires_per_second, seconds=seconds)


def xxl_hang(kind: str, *, fires_per_second: int, seconds: int, waiting: int) -> XxlHang:
    """Lateness, and again while so many runs wait for an executor that answers beats only."""
    with made_xxl(kind) as bed:
        flood(bed, job_id=bed.noop_job, runs=WARM_UP_RUNS)
        admin = bed.cluster.admins[0].process.pid
        alone = steady(bed, fires_per_second=fires_per_second, seconds=seconds)
        alone_mebibytes = resident_mebibytes(admin)
        with hanging_executor(bed) as executor_id:
            job = {"executor_id": executor_id, "name": "hangs", "handler": "noop"}
            job_id = int(bed.cluster.api().post("/jobs", job)["id"])
            queue_runs(bed, [Share(job_id=job_id, executor_id=executor_id, runs=waiting)])
            beside = steady(bed, fires_per_second=fires_per_second, seconds=seconds)
        return XxlHang(
            fires_per_second=fires_per_second,
            waiting=waiting,
            alone_p50_ms=alone.started_p50_ms,
            alone_p99_ms=alone.started_p99_ms,
            alone_max_ms=alone.started_max_ms,
            beside_p50_ms=beside.started_p50_ms,
            beside_p99_ms=beside.started_p99_ms,
            beside_max_ms=beside.started_max_ms,
            alone_cpu_share=alone.cpu_share,
            beside_cpu_share=beside.cpu_share,
            alone_mebibytes=alone_mebibytes,
            beside_mebibytes=resident_mebibytes(admin),
        )


def _wait_for_logs(bed: Bed) -> None:
    wait_until(
        lambda: unread_logs(bed) == 0, timeout_seconds=LOGS_SECONDS, what="all logs to be read"
    )


_MEASURES: dict[str, Callable[[str], Any]] = {
    "flood": lambda kind: xxl_flood(kind, runs=5_000, repeats=3),
    "steady": lambda kind: xxl_steady(kind, fires_per_second=200, seconds=20),
    "hang": lambda kind: xxl_hang(kind, fires_per_second=200, seconds=20, waiting=10_000),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.xxl", description=__doc__
    )
    parser.add_argument("--database", choices=KINDS, default="mariadb")
    parser.add_argument("--only", action="append", choices=tuple(_MEASURES))
    asked = parser.parse_args()
    for name in asked.only or _MEASURES:
        figures = asdict(_MEASURES[name](asked.database))
        print(f"{name}:", *(f"  {key}: {value}" for key, value in figures.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
