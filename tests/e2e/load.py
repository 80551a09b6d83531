"""Fifty fires a second on two admins and three nodes, and the checks when all is quiet again."""

from __future__ import annotations

import time

from tests.e2e.cluster import Cluster
from tests.e2e.ledger import LedgerReader, problems, read_journals
from tests.support.polling import wait_until

JOBS = 10
TRIGGERS = 5  # of each job; each fires once a second, 20 ms after the one before
FIRES_PER_SECOND = JOBS * TRIGGERS
SETTLE_SECONDS = 60.0


class Load:
    """The cluster under load, from its first fire to the checks."""

    def __init__(self, cluster: Cluster, database_url: str) -> None:
        self.cluster = cluster
        self.reader = LedgerReader(database_url)
        self.first_admin = cluster.start_admin("admin-1")
        cluster.add_executor()
        self.second_admin = cluster.start_admin("admin-2")
        self.nodes = [cluster.start_node(f"node-{n}", slots=20) for n in (1, 2, 3)]
        for node in self.nodes:  # they were told of the first admin only
            node.process.wait_for_line("connected to admin admin-2", timeout_seconds=20)
        self.jobs = [self._add_job(number) for number in range(JOBS)]
        self.began = time.monotonic()

    def _add_job(self, number: int) -> int:
        first = round(time.time() * 1000) + 2_000
        return self.cluster.add_job(
            f"job-{number:02}",
            "work",
            parameters={"seconds": 0.2 * (number % 5)},
            routing=("round_robin", "random", "least_busy", "failover")[number % 4],
            # A few are not repeated after a node died, so that lost runs are seen as well.
            retries=3,
            retry_delay_seconds=1,
            retry_on_lost=number % 5 > 0,
            triggers=[
                {
                    "kind": "fixed_rate",
                    "every_seconds": 1,
                    "anchor_at": first + 20 * (number * TRIGGERS + n),
                    "misfire": "fire_all",
                }
                for n in range(TRIGGERS)
            ],
        )

    def wait_until(self, seconds: float) -> None:
        """Let the load run until so long after its beginning."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))

    def settle(self) -> list[str]:
        """Pause all triggers, wait until nothing goes on; the ledger's broken guarantees."""
        api = self.cluster.api()
        paused_at = round(time.time() * 1000)  # the servers run on this machine
        for job in self.jobs:
            api.post(f"/jobs/{job}/pause")
        wait_until(
            lambda: self.reader.live_runs() == 0,
            timeout_seconds=SETTLE_SECONDS,
            what="every run to end",
        )
        wait_until(
            lambda: not any(node.in_use for node in self.reader.read().nodes),
            timeout_seconds=5,
            what="every slot to be given back",
        )
        journals = read_journals(node.journal for node in self.cluster.nodes)
        ledger = self.reader.read()
        states = {run.state for run in ledger.runs}
        print(f"{len(ledger.runs)} runs, {len(ledger.attempts)} earlier attempts, {states}")
        return problems(ledger, journals, paused_at=paused_at)

    def stop_all(self) -> None:
        """End what still runs, politely; nothing may have failed in a way nobody thought of."""
        for each in (*self.cluster.nodes, *self.cluster.admins):
            if each.process.is_running:
                assert each.process.stop() == 0
            assert "Traceback" not in each.process.output()
