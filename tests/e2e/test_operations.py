"""What operators do to a running installation: run now, tokens, and the end of an executor."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.support.polling import wait_until


def node_named(cluster: Cluster, name: str) -> Any:
    """The newest node of the executor with this name, in its executor's answer."""
    nodes = cluster.api().get(f"/executors/{cluster.executor_id}")["nodes"]
    return next((node for node in nodes if node["name"] == name), None)


@pytest.mark.parametrize("database_url", ["mariadb"], indirect=True)  # it waits for leases
def test_what_operators_do_reaches_the_nodes(cluster: Cluster) -> None:
    api = cluster.api()
    for name in ("node-1", "node-2"):
        cluster.start_node(name)
    job = cluster.add_job("steady", "work", parameters={"seconds": 0.1, "kept": 1})

    # Parameters over the job's, a chosen node, a delay.
    asked = {"node": "node-2", "delay_seconds": 1, "parameters": {"seconds": 0}}
    runs = [api.post(f"/jobs/{job}/run", asked)["run_id"] for _ in range(3)]
    for run_id in runs:
        run = cluster.wait_for_run(run_id, "succeeded")
        assert run["node_name"] == "node-2"
        instants = (run[at] for at in ("started_at", "scheduled_at", "due_at"))
        started, scheduled, due = map(datetime.fromisoformat, instants)
        assert started >= scheduled >= due
        assert run["parameters"] == {"seconds": 0, "kept": 1}

    # What a node runs now, and who hears it.
    long = api.post(f"/jobs/{job}/run", {"node": "node-1", "parameters": {"seconds": 60}})["run_id"]
    cluster.wait_for_run(long, "running")
    first = node_named(cluster, "node-1")
    node = api.get(f"/nodes/{first['id']}")
    assert [run["id"] for run in node["running"]] == [long]
    assert [admin["admin_name"] for admin in node["heard_by"]] == ["admin-1"]

    # Two tokens work while they overlap; then nodes with the old one are sent away.
    rotated = api.post(f"/executors/{cluster.executor_id}/token", {"overlap_seconds": 600})
    cluster.start_node("node-3", token=rotated["token"])
    cluster.start_node("node-4")
    api.delete(f"/executors/{cluster.executor_id}/old-token")
    wait_until(
        lambda: node_named(cluster, "node-4")["state"] != "live",
        timeout_seconds=30,
        what="the end of a node whose token was revoked",
    )
    assert node_named(cluster, "node-3")["state"] == "live"

    # Its jobs only when told so; and nothing is left that waits.
    refused = api.ask("DELETE", f"/executors/{cluster.executor_id}")
    assert (refused.status, refused.code) == (409, "executor.has_jobs")
    later = api.post(f"/jobs/{job}/run", {"delay_seconds": 600})["run_id"]
    api.delete(f"/executors/{cluster.executor_id}?with_jobs=true")
    assert api.ask("GET", f"/jobs/{job}").status == 404
    assert api.get(f"/runs/{later}")["state"] == "cancelled"
    assert cluster.wait_for_run(long, "cancelled", "lost", timeout_seconds=40)["state"]
    assert api.get("/runs/count?state=active") == {"runs": 0, "capped": False}
