"""What an admin costs that has nothing to do: idle triggers, idle nodes, old runs.

python -m tests.bench.scenarios.idle --database mariadb --triggers 100000 --nodes 1000
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass

from tests.bench.testbed.bed import KINDS
from tests.bench.testbed.measure import peak_mebibytes, resident_mebibytes
from tests.bench.testbed.quiet_bed import quiet

SETTLE_SECONDS = 10.0  # after the last node came: all it has brought about is over


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """One measurement."""

    triggers: int
    nodes: int
    executors: int
    old_runs: int
    seconds: float
    cpu_share: dict[str, float]  # of one core, by admin and database
    asked_per_second: dict[str, float]  # of the database; what its server counts
    mebibytes: float  # of the admin, at the end
    peak_mebibytes: int  # of the admin, its start included
    deaths: int  # nodes declared dead though they were there


def idle(
    kind: str, *, triggers: int, nodes: int, seconds: float, executors: int = 1, old_runs: int = 0
) -> Idle:
    """Watch an admin for some seconds to which nothing happens."""
    with quiet(kind, triggers=triggers, nodes=nodes, executors=executors, old_runs=old_runs) as bed:
        bed.crowd.wait_until_connected()
        time.sleep(SETTLE_SECONDS)
        asked, cpu, began = bed.asked_of_database(), bed.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        cpu_after, asked_after = bed.cpu_seconds(), bed.asked_of_database()
        return Idle(
            triggers=triggers,
            nodes=nodes,
            executors=executors,
            old_runs=old_runs,
            seconds=round(passed, 1),
            cpu_share={name: round((cpu_after[name] - cpu[name]) / passed, 4) for name in cpu},
            asked_per_second={
                name: round((asked_after[name] - asked[name]) / passed, 1) for name in asked
            },
            mebibytes=resident_mebibytes(bed.admin_pid),
            peak_mebibytes=peak_mebibytes(bed.admin_pid),
            deaths=bed.deaths(),
        )


def print_idle(kind: str, result: Idle) -> None:
    """One line of the table."""
    cpu = ", ".join(f"{name} {share:.1%}" for name, share in result.cpu_share.items())
    asked = "".join(f", {rate:g} {name}/s" for name, rate in result.asked_per_second.items())
    print(
        f"{kind:<11} idle    {result.triggers:>7,} triggers, {result.nodes:,} nodes of"
        f" {result.executors} executors, {result.old_runs:,} old runs: of a core: {cpu}{asked};"
        f" admin {result.mebibytes:.0f} MiB, {result.deaths} deaths",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.idle", description=__doc__
    )
    parser.add_argument("--database", action="append", choices=KINDS, help="default: all three")
    parser.add_argument("--triggers", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--executors", type=int, default=1, help="that the nodes belong to")
    parser.add_argument("--old-runs", type=int, default=0, help="in the ledger")
    parser.add_argument("--seconds", type=float, default=30.0)
    asked = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        del os.environ[name]  # a developer's own settings are not to be measured
    for kind in asked.database or KINDS:
        result = idle(
            kind,
            triggers=asked.triggers,
            nodes=asked.nodes,
            seconds=asked.seconds,
            executors=asked.executors,
            old_runs=asked.old_runs,
        )
        print_idle(kind, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
