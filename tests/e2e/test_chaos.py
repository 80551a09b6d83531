"""Two admins and three nodes at 50 fires a second, while admins, nodes and the database are killed.

The database servers are durable here, as in production: what they acknowledged must be there after
their own `kill -9`.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.load import JOBS, Load
from tests.support.databases import fresh_database
from tests.support.servers import DatabaseServer


@pytest.mark.slow
def test_a_killed_admin_and_a_killed_node(own_server: DatabaseServer, tmp_path: Path) -> None:
    with fresh_database(own_server) as url, Cluster(tmp_path, url) as cluster:
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
def test_a_crashed_database_server(own_server: DatabaseServer, tmp_path: Path) -> None:
    with fresh_database(own_server) as url, Cluster(tmp_path, url) as cluster:
        load = Load(cluster, url)
        load.wait_until(12)
        own_server.crash()
        time.sleep(3)
        own_server.start()
        load.wait_until(35)

        assert load.settle() == []
        assert len(load.reader.read().runs) >= JOBS * 30
        for admin in cluster.admins:
            admin.process.wait_for_http(f"{admin.url}/healthz")
        for each in (*cluster.nodes, *cluster.admins):
            assert each.process.stop() == 0
            assert "Traceback" not in each.process.output()
