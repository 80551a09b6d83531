"""Two admins and three nodes at 30 fires a second, while their database crashes.

The database servers are durable here, as in production: what they acknowledged must be there after
their own `kill -9`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import by_day
from tests.e2e.load import FIRES_PER_SECOND, Load
from tests.support.databases import fresh_database
from tests.support.servers import DatabaseServer

ADMIN_STOP_SECONDS = 15  # what the admin allows itself
NODE_STOP_SECONDS = 10  # its runs take less than a second


@pytest.mark.slow
@pytest.mark.parametrize("own_server", by_day("postgresql"), indirect=True)
def test_a_crashed_database_server_and_polite_ends(
    own_server: DatabaseServer, tmp_path: Path
) -> None:
    with fresh_database(own_server) as url, Cluster(tmp_path, url) as cluster:
        load = Load(cluster, url)
        load.wait_until(6)
        own_server.crash()
        time.sleep(3)
        own_server.start()
        load.wait_until(20)
        assert load.first_admin.process.stop(timeout_seconds=ADMIN_STOP_SECONDS) == 0
        load.wait_until(23)
        assert load.nodes[0].process.stop(timeout_seconds=NODE_STOP_SECONDS) == 0
        load.wait_until(28)

        assert load.settle() == []
        ledger = load.reader.read()
        assert len(ledger.runs) >= FIRES_PER_SECOND * 23
        # No node died, so nothing was lost or tried twice: results of the outage arrived late.
        assert {run.state for run in ledger.runs} == {"succeeded"}
        assert not ledger.attempts
        assert [node.state for node in ledger.nodes if node.name == "node-1"] == ["gone"]
        remaining = cluster.admins[1]
        remaining.process.wait_for_http(f"{remaining.url}/healthz")
        load.stop_all()
