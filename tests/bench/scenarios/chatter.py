"""A run that logs a million lines through a real admin: how fast, and what it costs in memory.

    python -m tests.bench.scenarios.chatter
        [--database sqlite|mariadb|postgresql] [--lines N] [--width N]

Prints lines a second, and by how much the memory of node and admin grew at its peak; asserts only
that all lines were stored.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

from tests.bench.testbed.bed import KINDS, made
from tests.bench.testbed.measure import peak_mebibytes
from tests.e2e.cluster import Cluster

TIMEOUT_SECONDS = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Chatter:
    """What one long run took."""

    lines: int
    seconds: float
    node_before: int  # MiB, the peak until then
    node_grew: int  # MiB that the run added to the peak
    admin_before: int
    admin_grew: int


def chatter(cluster: Cluster, *, lines: int, width: int) -> Chatter:
    """Let one node log that many lines in one run, and wait until it has succeeded."""
    job_id = cluster.add_job("chatter", "chatter")
    warm_up = cluster.run_job(job_id, {"count": 2_000, "width": width})
    cluster.wait_for_run(warm_up, "succeeded", timeout_seconds=TIMEOUT_SECONDS)
    nodes = [node.process.pid for node in cluster.nodes]
    (admin,) = (admin.process.pid for admin in cluster.admins)
    nodes_before, admin_before = [peak_mebibytes(pid) for pid in nodes], peak_mebibytes(admin)
    begun = time.monotonic()
    run_id = cluster.run_job(job_id, {"count": lines, "width": width})
    run = cluster.wait_for_run(run_id, "succeeded", timeout_seconds=TIMEOUT_SECONDS)
    seconds = time.monotonic() - begun
    stored = cluster.api().get(f"/runs/{run_id}/log?after={lines - 1}")["lines"]
    assert run["result"] == {"lines": lines}
    assert [line["seq"] for line in stored] == [lines], stored
    after = [peak_mebibytes(pid) for pid in nodes]
    grew, before = max((b - a, a) for a, b in zip(nodes_before, after, strict=True))
    return Chatter(
        lines=lines,
        seconds=round(seconds, 1),
        node_before=before,
        node_grew=grew,
        admin_before=admin_before,
        admin_grew=peak_mebibytes(admin) - admin_before,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=KINDS, action="append")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=80, help="characters of a line")
    asked = parser.parse_args()
    for kind in asked.database or KINDS:
        with made(kind) as bed:
            told = chatter(bed.cluster, lines=asked.lines, width=asked.width)
        print(
            f"{kind:<11} {told.lines:,} lines of {asked.width} characters in {told.seconds} s,"
            f" {told.lines / told.seconds:,.0f} lines/s; the node grew by {told.node_grew} MiB"
            f" from {told.node_before}, the admin by {told.admin_grew} from {told.admin_before}",
            flush=True,
        )


if __name__ == "__main__":
    main()
