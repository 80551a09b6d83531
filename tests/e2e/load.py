"""Twenty fires a second on two admins and three nodes, and the checks when all is quiet again."""

from __future__ import annotations

import time

from tests.e2e.cluster import Cluster
from tests.e2e.fires import Fires
from tests.e2e.ledger import LedgerReader, Problem

FIRES_PER_SECOND = 20  # ten jobs with two triggers


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
        self.fires = Fires(cluster, self.reader, per_second=FIRES_PER_SECOND // 10)
        self.began = time.monotonic()

    def wait_until(self, seconds: float) -> None:
        """Let the load run until so long after its beginning."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))

    def settle(self) -> list[Problem]:
        """Pause all triggers, wait until nothing goes on; the ledger's broken guarantees."""
        settled = self.fires.settle()
        states = {run.state for run in settled.ledger.runs}
        attempts = len(settled.ledger.attempts)
        print(f"{len(settled.ledger.runs)} runs, {attempts} earlier attempts, {states}")
        return settled.problems

    def stop_all(self) -> None:
        """End what still runs, politely; nothing may have failed in a way nobody thought of."""
        for each in (*self.cluster.nodes, *self.cluster.admins):
            if each.process.is_running:
                assert each.process.stop() == 0
            assert "Traceback" not in each.process.output()
