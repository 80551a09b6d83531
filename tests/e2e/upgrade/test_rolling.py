"""An upgrade while everything goes on: the schema first, then admins and nodes, one by one."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import AdminProcess, Cluster
from tests.e2e.fires import Fires
from tests.e2e.ledger import LedgerReader
from tests.support.forks import run_command
from tests.support.next_version import VERSION, make_next_version
from tests.support.nightly import IS_NIGHT
from tests.support.polling import wait_until

BETWEEN_SECONDS = 3.0  # fires go on for so long in each state of the upgrade
MEET_SECONDS = 120.0  # a node waits up to 15 s before it knocks again; the machine may be busy


@pytest.fixture(params=["mariadb", "postgresql"] if IS_NIGHT else ["postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Where several admins can be; the embedded database has one, which upgrades it."""
    return str(request.getfixturevalue(f"{request.param}_url"))


def sessions(cluster: Cluster, reader: LedgerReader, admin: str) -> bool:
    """Whether each living node has a socket to the newest admin of this name."""
    [(met,)] = reader.query(
        "SELECT count(*) FROM node_session s JOIN node n ON n.id = s.node_id"
        " WHERE n.state = 'live' AND s.admin_id ="
        f" (SELECT id FROM admin WHERE name = '{admin}' ORDER BY started_at DESC LIMIT 1)"
    )
    return bool(met >= sum(node.process.is_running for node in cluster.nodes))


def restart(cluster: Cluster, admin: AdminProcess, code: Path) -> None:
    """With another version, as `systemctl restart` does it."""
    assert admin.process.stop() == 0
    cluster.start_admin(admin.name, port=admin.port, code=code)
    reader = LedgerReader(cluster.database_url)
    wait_until(
        lambda: sessions(cluster, reader, admin.name),
        timeout_seconds=MEET_SECONDS,
        what=f"the nodes to meet {admin.name}",
    )
    time.sleep(BETWEEN_SECONDS)


@pytest.mark.slow
def test_an_upgrade_of_running_admins_loses_and_doubles_nothing(
    database_url: str, tmp_path: Path
) -> None:
    code = make_next_version(tmp_path / "next")
    reader = LedgerReader(database_url)
    with Cluster(tmp_path, database_url) as cluster:
        first, second = cluster.start_admin("admin-1"), cluster.start_admin("admin-2")
        cluster.add_executor()
        nodes = [cluster.start_node(f"node-{number}") for number in (1, 2)]
        for admin in ("admin-1", "admin-2"):
            wait_until(lambda admin=admin: sessions(cluster, reader, admin), what="nodes")
        fires = Fires(cluster, reader, per_second=2, longest_seconds=0.4, serial=True)
        time.sleep(2 + BETWEEN_SECONDS)

        cluster.command("db", "upgrade", code=code)
        time.sleep(BETWEEN_SECONDS)  # both admins are of today, the schema is the next one's
        refused = run_command(
            ["db", "check"], os.environ | {"TICKWHEEL_DATABASE_URL": database_url}
        )
        assert refused.returncode != 0
        assert "made by a newer version of Tickwheel" in refused.stdout + refused.stderr
        cluster.start_node("node-3", code=code)  # a node ahead of its admins

        restart(cluster, second, code)  # from here on, of both versions
        made: list[Any] = [
            cluster.api(admin).post(
                "/jobs",
                {"executor_id": cluster.executor_id, "name": admin.name, "handler": "work"},
            )["id"]
            for admin in (first, cluster.admins[-1])
        ]
        restart(cluster, first, code)  # nodes of today are one behind their admins
        cluster.start_node("node-4")
        for node in nodes:
            assert node.process.stop() == 0
            cluster.start_node(node.name, code=code)
        time.sleep(BETWEEN_SECONDS)

        settled = fires.settle()
        assert settled.problems == []
        assert {run.state for run in settled.ledger.runs} == {"succeeded"}
        assert settled.ledger.attempts == [], "nobody died: each run needed one try"
        assert len(settled.ledger.runs) > 500
        of = {job.id: job.tier for job in reader.query("SELECT id, tier FROM job")}
        assert [of[job] for job in made] == ["usual", VERSION]
        planned_by = Counter(run.region for run in settled.ledger.runs)
        assert set(planned_by) == {None, VERSION}, "runs of both versions, side by side"
        versions = reader.query("SELECT version FROM admin ORDER BY started_at")
        assert [each.version for each in versions][-2:] == [VERSION, VERSION]
        met = reader.query(f"SELECT name FROM node WHERE sdk = 'python/{VERSION}'")
        assert {each.name for each in met} == {"node-1", "node-2", "node-3"}
        for process in (*cluster.admins, *cluster.nodes):
            assert "Traceback" not in process.process.output(), process.process.log
            assert '"level": "error"' not in process.process.output(), process.process.log
