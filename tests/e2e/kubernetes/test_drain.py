"""A pod that is deleted, as Kubernetes does it: preStop, SIGTERM, and SIGKILL after the grace."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import Cluster, NodeProcess
from tests.support.polling import wait_until

NODE = Path(__file__).parents[3] / "docker" / "kubernetes" / "node.yaml"
[POD] = [each["spec"]["template"]["spec"] for each in yaml.safe_load_all(NODE.read_text())]
GRACE_SECONDS = 4.0  # of the node; 30 by default, which the manifest is made for


def delete_pod(node: NodeProcess) -> int:
    """What a kubelet does; returns the exit code."""
    command: list[str] = POD["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    subprocess.run(command, check=True)
    node.process.send_signal(signal.SIGTERM)
    left = POD["terminationGracePeriodSeconds"] - float(command[-1])
    try:
        return node.process.wait(timeout_seconds=left)
    except TimeoutError:
        node.process.kill()
        return -signal.SIGKILL


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """What a node does is the same with each of them."""
    return f"sqlite:///{tmp_path / 'tickwheel.db'}"


def test_nothing_is_lost_with_a_pod(cluster: Cluster) -> None:
    node = cluster.start_node("pod-1", grace_seconds=GRACE_SECONDS)
    short, long = (cluster.add_job(name, "work") for name in ("short", "long"))
    ends_in_time = cluster.run_job(short, {"seconds": 4})
    takes_too_long = cluster.run_job(long, {"seconds": 600})
    for run in (ends_in_time, takes_too_long):
        cluster.wait_for_run(run, "running")

    assert delete_pod(node) == 0, "it ended by itself, before SIGKILL"

    assert cluster.wait_for_run(ends_in_time, "succeeded")["result"]["attempt"] == 1
    failed: Any = cluster.wait_for_run(takes_too_long, "failed", "lost")
    assert failed["state"] == "failed", "the node said so itself; nobody had to wait for its lease"
    assert "the node was shut down" in failed["message"]

    waiting = cluster.run_job(short, {"seconds": 0})
    cluster.start_node("pod-2")
    cluster.wait_for_run(waiting, "succeeded")
    starts = [line for line in node.journal.read_text().splitlines() if line.startswith("start")]
    assert len(starts) == 2, "each began once, and nothing began while it drained"
    wait_until(lambda: not node.process.is_running, what="the end of the pod")


def test_the_manifest_leaves_a_node_more_time_than_it_takes() -> None:
    """The grace, then five seconds for cancelled handlers, and as many for receipts."""
    command: list[str] = POD["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert POD["terminationGracePeriodSeconds"] >= float(command[-1]) + 30 + 5 + 5 + 10
