"""How long after its start an admin with very many jobs fires.

python -m tests.bench.scenarios.start.first_fire --database mariadb --jobs 100000
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from tests.bench.testbed.bed import KINDS
from tests.bench.testbed.measure import peak_mebibytes
from tests.bench.testbed.quiet_bed import QuietBed, quiet
from tests.support.polling import wait_until
from tickwheel_admin.store.database.tables import run

STABLE_SECONDS = 12.0  # a node that was connected for so long comes back quickly
TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start. Seconds are from starting the process."""

    jobs: int
    answers_seconds: float  # until the admin answers requests
    planned_seconds: float  # until a run of the job that fires every second was in the database
    claimed_seconds: float  # until one was claimed for the node
    first_fire_seconds: float  # until one had started there, as far as the admin knows
    cpu_seconds: dict[str, float]  # by then, of admin and database
    peak_mebibytes: int  # of the admin by then


def start(kind: str, *, jobs: int) -> Start:
    """Stop an admin, and start one again as a deployment does.

    The node of the SDK runs on, and tries to connect again at growing intervals.
    """
    with quiet(kind, triggers=jobs, nodes=0, triggers_per_job=1) as bed:
        ticking = bed.cluster.add_job(
            "ticks", "noop", triggers=[{"kind": "fixed_rate", "every_seconds": 1}]
        )
        bed.cluster.start_node("node-1")
        time.sleep(STABLE_SECONDS)
        stopped = bed.cluster.admins[0]
        stopped.process.stop()
        before = bed.cpu_seconds()["database"]
        began = time.time()  # all on one machine, with one clock
        admin = bed.cluster.start_admin(stopped.name, port=stopped.port)
        answers = time.time()
        wait_until(
            lambda: _first(bed, run.c.started_at, ticking, began) is not None,
            timeout_seconds=TIMEOUT_SECONDS,
            what="a run has started",
        )
        cpu, mebibytes = bed.cpu_seconds(), peak_mebibytes(admin.process.pid)
        cpu["database"] -= before

        def seconds_until(column: sa.Column[int]) -> float:
            first = _first(bed, column, ticking, began)
            assert first is not None
            return round(first / 1000 - began, 2)

        return Start(
            jobs=jobs,
            answers_seconds=round(answers - began, 2),
            planned_seconds=seconds_until(run.c.created_at),
            claimed_seconds=seconds_until(run.c.dispatched_at),
            first_fire_seconds=seconds_until(run.c.started_at),
            cpu_seconds={name: round(seconds, 2) for name, seconds in cpu.items()},
            peak_mebibytes=mebibytes,
        )


def _first(bed: QuietBed, column: sa.Column[int], job_id: int, began: float) -> int | None:
    """The first instant in the column of the job's runs after that of the start."""
    asked = sa.select(sa.func.min(column)).where(run.c.job_id == job_id, column > began * 1000)
    found = bed.database.read_sync(lambda conn: conn.execute(asked).scalar_one())
    return None if found is None else int(found)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.start.first_fire", description=__doc__
    )
    parser.add_argument("--database", action="append", choices=KINDS, help="default: all three")
    parser.add_argument("--jobs", type=int, default=100_000)
    asked = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("TICKWHEEL_")]:
        del os.environ[name]  # a developer's own settings are not to be measured
    for kind in asked.database or KINDS:
        figures = asdict(start(kind, jobs=asked.jobs))
        print(f"{kind:<11} start", *(f"{name} {value}" for name, value in figures.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
