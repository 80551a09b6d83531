"""Ten thousand nodes at one admin: what they cost while idle, and how they come back to it.

python -m tests.bench.scenarios.crowd --database mariadb --nodes 10000
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.testbed.bed import KINDS
from tests.bench.testbed.measure import percentile, resident_mebibytes
from tests.bench.testbed.quiet_bed import QuietBed, quiet

SETTLE_SECONDS = 20.0  # an admin may declare nobody dead before


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """One measurement. Nodes come back at moments of their own, up to 15 s apart after failures."""

    nodes: int
    connected_seconds: float  # from the first attempt until all were connected
    connected_cpu_seconds: dict[str, float]  # processor time of that, by admin and database
    cpu_share: dict[str, float]  # of one core, while they were idle
    asked_per_second: dict[str, float]  # of the database; what its server counts
    acknowledged_p50_ms: int  # from sending a heartbeat to the acknowledgement that covers it
    acknowledged_p99_ms: int
    acknowledged_max_ms: int
    mebibytes: float  # of the admin
    reconnected_seconds: float  # from the answer of a new admin after a kill -9 to all of them
    reconnected_cpu_seconds: dict[str, float]
    deaths: int  # declared, over all of that; none of the nodes ever ended
    cut_off: int  # nodes that heard nothing for a lease's time, over all of that


def crowd(kind: str, *, nodes: int, seconds: float, executors: int = 1) -> Crowd:
    """Connect nodes, watch them for some seconds, and kill and restart their admin."""
    began = time.monotonic()
    with quiet(kind, triggers=0, nodes=nodes, executors=executors) as bed:
        before, began = bed.cpu_seconds(), time.monotonic()
        bed.crowd.wait_until_connected()
        connected_seconds = time.monotonic() - began
        connected_cpu = _since(before, bed.cpu_seconds())
        time.sleep(SETTLE_SECONDS)
        bed.crowd.report()
        asked, cpu, began = bed.asked_of_database(), bed.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        cpu_after, asked_after = bed.cpu_seconds(), bed.asked_of_database()
        report = bed.crowd.report()
        acknowledged = list(Counter(report.acknowledged_ms).elements())
        mebibytes = resident_mebibytes(bed.admin_pid)
        reconnected_seconds, reconnected_cpu = _restart(bed)
        time.sleep(SETTLE_SECONDS)
        return Crowd(
            nodes=nodes,
            connected_seconds=round(connected_seconds, 1),
            connected_cpu_seconds=connected_cpu,
            cpu_share={name: round((cpu_after[name] - cpu[name]) / passed, 3) for name in cpu},
            asked_per_second={
                name: round((asked_after[name] - asked[name]) / passed, 1) for name in asked
            },
            acknowledged_p50_ms=percentile(acknowledged, 0.5),
            acknowledged_p99_ms=percentile(acknowledged, 0.99),
            acknowledged_max_ms=max(acknowledged),
            mebibytes=mebibytes,
            reconnected_seconds=reconnected_seconds,
            reconnected_cpu_seconds=reconnected_cpu,
            deaths=bed.deaths(),
            cut_off=bed.crowd.report().cut_off,
        )


def _restart(bed: QuietBed) -> tuple[float, dict[str, float]]:
    """Seconds from the answer of a new admin until it has all nodes, and the processor time."""
    killed = bed.cluster.admins[-1]
    killed.process.kill()
    bed.cluster.start_admin("admin-1", port=killed.port)
    before, began = bed.cpu_seconds(), time.monotonic()
    bed.crowd.wait_until_connected()
    return round(time.monotonic() - began, 1), _since(before, bed.cpu_seconds())


def _since(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: round(after[name] - before[name], 1) for name in before}


def print_crowd(kind: str, result: Crowd) -> None:
    """Some lines of the table."""
    cpu = ", ".join(f"{name} {share:.1%}" for name, share in result.cpu_share.items())
    asked = "".join(f", {rate:g} {name}/s" for name, rate in result.asked_per_second.items())
    print(
        f"{kind:<11} crowd   {result.nodes:>7,} nodes connected in {result.connected_seconds} s"
        f" (processor s: {_listed(result.connected_cpu_seconds)}); idle, of a core: {cpu}{asked};"
        f" heartbeats acknowledged after p50 {result.acknowledged_p50_ms}"
        f" p99 {result.acknowledged_p99_ms} max {result.acknowledged_max_ms} ms;"
        f" admin {result.mebibytes:.0f} MiB\n"
        f"            back {result.reconnected_seconds} s after a restart (processor s:"
        f" {_listed(result.reconnected_cpu_seconds)}); {result.deaths} deaths,"
        f" {result.cut_off} cut off",
        flush=True,
    )


def _listed(figures: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in figures.items())


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.crowd", description=__doc__
    )
    parser.add_argument("--database", action="append", choices=KINDS, help="default: all three")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--executors", type=int, default=1, help="that the nodes belong to")
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        del os.environ[name]  # a developer's own settings are not to be measured
    for kind in asked.database or KINDS:
        result = crowd(kind, nodes=asked.nodes, seconds=asked.seconds, executors=asked.executors)
        print_crowd(kind, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
