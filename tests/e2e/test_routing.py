"""Where runs go among real nodes, what the API says of it, and that a restart changes nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from tests.e2e.cluster import Cluster
from tests.support.polling import wait_until

NODES = ("node-a", "node-b", "node-c")


def test_jobs_choose_their_nodes(sqlite_url: str, tmp_path: Path) -> None:
    with Cluster(tmp_path, sqlite_url) as cluster:
        admin = cluster.start_admin()
        cluster.add_executor()
        for name in NODES:
            cluster.start_node(name)
        api = cluster.api()

        def routed(job_id: int, runs: int, **parameters: Any) -> list[str]:
            ids = [cluster.run_job(job_id, parameters or None) for _ in range(runs)]
            ended = [cluster.wait_for_run(run_id, "succeeded") for run_id in ids]
            assert all(run["why_node"] and run["choice"] for run in ended)
            return [run["node_name"] for run in ended]

        def job(strategy: str, **fields: Any) -> int:
            return cluster.add_job(strategy, "work", routing=strategy, **fields)

        assert set(routed(job("first"), 2)) == {"node-a"}
        assert set(routed(job("last"), 2)) == {"node-c"}
        failover = job("failover", nodes=["gone", "node-b", "*"])
        assert set(routed(failover, 2)) == {"node-b"}
        assert set(routed(job("pinned", nodes=["*-c"]), 2)) == {"node-c"}
        hashed = job("consistent_hash", hash_by="customer")
        homes = {number: set(routed(hashed, 2, customer=number)) for number in range(6)}
        assert all(len(names) == 1 for names in homes.values())
        turns = job("round_robin")
        uses = job("least_frequently_used")
        before = {each: routed(each, 4) for each in (turns, uses)}

        # An operator's cordon shows in the reason; a restart of the admin in nothing.
        nodes = api.get(f"/executors/{cluster.executor_id}")["nodes"]
        (b,) = [node["id"] for node in nodes if node["name"] == "node-b"]
        api.post(f"/nodes/{b}/cordon")
        run = cluster.wait_for_run(cluster.run_job(failover), "succeeded")
        assert (run["node_name"], run["why_node"]) == (
            "node-a",
            "Failover: number 3 in the job's order. node-b was cordoned.",
        )
        api.post(f"/nodes/{b}/resume")
        assert admin.process.stop() == 0
        cluster.start_admin(port=admin.port)
        wait_until(
            lambda: all(api.get(f"/nodes/{node['id']}")["heard_by"] for node in nodes),
            timeout_seconds=30,
            what="all nodes to be back",
        )
        for each in (turns, uses):
            assert set(Counter(before[each] + routed(each, 5)).values()) == {3}

        waiting = cluster.run_job(job("least_busy", selector="zone=eu"))
        told = api.get(f"/runs/{waiting}")
        assert told["waiting_for"] == "no_matching_node"
        assert "zone=eu" in told["why_waiting"]
        assert told["waiting_since"] >= told["scheduled_at"]
