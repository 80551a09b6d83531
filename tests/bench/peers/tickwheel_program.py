"""Tickwheel as a peer: one admin and two nodes, triggers made through the API."""

from __future__ import annotations

from tests.bench.peers.contract import Order, Output, wait_for_the_end
from tests.bench.testbed.bed import NODES, SLOTS
from tests.e2e.cluster import Cluster
from tickwheel_admin import __version__

TRIGGERS_PER_JOB = 50  # the most that a job may have


def main() -> None:
    order = Order.from_environment()
    with Cluster(order.directory, order.database_url, forks_admins=False) as cluster:
        cluster.start_admin()
        cluster.add_executor()
        for number in range(1, NODES + 1):
            cluster.start_node(
                f"node-{number}", slots=SLOTS, program=("-m", "tests.bench.peers.tickwheel_node")
            )
        for start in range(0, order.schedules, TRIGGERS_PER_JOB):
            numbers = range(start, min(start + TRIGGERS_PER_JOB, order.schedules))
            cluster.add_job(
                f"peer-{start}", "handle", triggers=[_trigger(order, number) for number in numbers]
            )
        Output(order.output).ready(
            f"Tickwheel {__version__}, one admin, {NODES} nodes of {SLOTS} slots"
        )
        wait_for_the_end()


def _trigger(order: Order, schedule: int) -> dict[str, object]:
    parameters = {"schedule": schedule}
    if order.period_ms is None:
        return {"kind": "once", "at": order.due_at, "parameters": parameters}
    return {
        "kind": "fixed_rate",
        "every_seconds": order.period_ms // 1000,
        "anchor_at": order.due_at,
        "parameters": parameters,
    }


if __name__ == "__main__":
    main()
