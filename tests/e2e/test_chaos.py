"""Two admins and three nodes at 50 fires a second, while admins, nodes and the database are killed.

The database servers are durable here, as in production: what they acknowledged must be there after
their own `kill -9`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.ledger import LedgerReader, problems, read_journals
from tests.support.availability import unavailable
from tests.support.databases import chosen_kinds, fresh_database
from tests.support.polling import wait_until
from tests.support.servers import DatabaseServer, MariaDB, PostgreSQL

JOBS = 50  # each fires once a second, 20 ms after the one before
SETTLE_SECONDS = 60.0
SERVERS: dict[str, type[DatabaseServer]] = {"mariadb": MariaDB, "postgresql": PostgreSQL}


@pytest.fixture(scope="module", params=[kind for kind in chosen_kinds() if kind in SERVERS])
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A durable server that tests may crash."""
    kind = SERVERS[request.param]
    if not kind.is_installed():
        unavailable(f"{kind.name} is not installed")
    with kind(durable=True) as running:
        yield running


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
        first = round(time.time() * 1000) + 2_000 + 20 * number
        return self.cluster.add_job(
            f"job-{number:02}",
            "work",
            parameters={"seconds": 0.05 * (number % 5)},
            routing=("round_robin", "random", "least_busy", "failover")[number % 4],
            # A few are not repeated after a node died, so that lost runs are seen as well.
            retries=3,
            retry_delay_seconds=1,
            retry_on_lost=number % 5 > 0,
            triggers=[
                {
                    "kind": "fixed_rate",
                    "every_seconds": 1,
                    "anchor_at": first,
                    "misfire": "fire_all",
                }
            ],
        )

    def wait_until(self, seconds: float) -> None:
        """Let the load run until so long after its beginning."""
        time.sleep(max(0.0, self.began + seconds - time.monotonic()))

    def settle(self) -> list[str]:
        """Pause every trigger, wait until nothing goes on, and hold ledger and journals together."""
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


@pytest.mark.slow
def test_a_killed_admin_and_a_killed_node(server: DatabaseServer, tmp_path: Path) -> None:
    with fresh_database(server) as url, Cluster(tmp_path, url) as cluster:
        load = Load(cluster, url)
        load.wait_until(20)
        load.first_admin.process.kill()
        load.wait_until(25)
        load.nodes[0].process.kill()
        load.wait_until(28)
        cluster.start_admin("admin-1", port=load.first_admin.port)
        cluster.start_node("node-4", slots=20)
        load.wait_until(60)

        assert load.settle() == []
        assert len(load.reader.read().runs) >= JOBS * 55
        for each in (*cluster.nodes, *cluster.admins):
            if each.process.is_running:
                assert each.process.stop() == 0
                assert "Traceback" not in each.process.output()


@pytest.mark.slow
def test_a_crashed_database_server(server: DatabaseServer, tmp_path: Path) -> None:
    with fresh_database(server) as url, Cluster(tmp_path, url) as cluster:
        load = Load(cluster, url)
        load.wait_until(12)
        server.crash()
        time.sleep(3)
        server.start()
        load.wait_until(35)

        assert load.settle() == []
        assert len(load.reader.read().runs) >= JOBS * 30
        for admin in cluster.admins:
            admin.process.wait_for_http(f"{admin.url}/healthz")
        for each in (*cluster.nodes, *cluster.admins):
            assert each.process.stop() == 0
            assert "Traceback" not in each.process.output()
