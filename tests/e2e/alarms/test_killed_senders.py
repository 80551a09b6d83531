"""An admin dies between the sending of a message and its mark; the answer to another is lost."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.e2e.alarms.provider import NETWORKS, Answer, Provider, Taking, Told
from tests.e2e.cluster import Cluster


def test_a_message_whose_sender_was_killed_comes_again_with_its_id(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tickwheel.db'}"
    first = {"/killed", "/lost"}
    lock = threading.Lock()
    killed: list[int] = []

    def behave(taking: Taking) -> Answer:
        with lock:
            is_first = taking.channel in first
            first.discard(taking.channel)
        if not is_first:
            return Answer.OK
        if taking.channel == "/killed":
            killed.append(told.sender_of(taking)[0])
            cluster.admins[0].process.kill()
        return Answer.LOST

    with Provider(behave) as provider, Cluster(tmp_path, url) as cluster:
        cluster.start_admin("admin-1", environment=NETWORKS)
        cluster.add_executor()
        told = Told(cluster, url, provider)
        told.add_channels("/killed", "/lost", "/well")
        cluster.start_node("node-1")
        told.fail()
        admin = cluster.admins[0]
        admin.process.wait()
        other = cluster.start_admin("admin-2", port=admin.port, environment=NETWORKS)
        told.end_leases(*killed)
        told.wait_for_all(timeout_seconds=20)

        assert told.problems() == []
        ids = [each.message_id for each in provider.takings if each.channel == "/killed"]
        assert len(ids) == 2
        assert len(set(ids)) == 1
        assert other.process.stop() == 0
