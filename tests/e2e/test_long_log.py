"""A run that logs more than node and admin may keep in memory. The long one: bench.chatter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.scenarios.chatter import chatter
from tests.e2e.cluster import Cluster
from tests.support.databases import chosen_kinds

LINES, WIDTH = 20_000, 1_000  # 20 MB
MOST_MEBIBYTES = 14  # an attempt's share of a node's buffer is 1, and that of chunks is as much


def test_a_long_log_is_stored_whole_and_costs_neither_node_nor_admin_memory(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kinds = chosen_kinds()
    kind = "mariadb" if "mariadb" in kinds else kinds[0]
    with Cluster(tmp_path, str(request.getfixturevalue(f"{kind}_url"))) as cluster:
        cluster.start_admin()
        cluster.add_executor()
        cluster.start_node("node-1")
        took = chatter(cluster, lines=LINES, width=WIDTH)
    assert took.node_grew < MOST_MEBIBYTES, took
    assert took.admin_grew < MOST_MEBIBYTES, took
