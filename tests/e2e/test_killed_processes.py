"""Two admins and three nodes at 30 fires a second, while an admin and a node are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import by_day
from tests.e2e.load import FIRES_PER_SECOND, Load
from tests.support.databases import fresh_database
from tests.support.servers import DatabaseServer


@pytest.mark.slow
@pytest.mark.parametrize("own_server", by_day("mariadb"), indirect=True)
def test_a_killed_admin_and_a_killed_node(own_server: DatabaseServer, tmp_path: Path) -> None:
    with fresh_database(own_server) as url, Cluster(tmp_path, url) as cluster:
        load = Load(cluster, url)
        load.wait_until(6)
        load.first_admin.process.kill()
        load.wait_until(10)
        load.nodes[0].process.kill()
        load.wait_until(13)
        cluster.start_admin("admin-1", port=load.first_admin.port)
        cluster.start_node("node-4", slots=20)
        load.wait_until(38)

        assert load.settle() == []
        assert len(load.reader.read().runs) >= FIRES_PER_SECOND * 33
        load.stop_all()
