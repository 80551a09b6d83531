"""Simulated nodes that also run what they are given: at once, and it succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.quiet_bed import NodeCrowd
from tests.e2e.cluster import EXECUTOR, Cluster

SERVING_SLOTS = 1_000  # of all of them together


@contextmanager
def serving(cluster: Cluster, *, nodes: int, slots: int) -> Iterator[NodeCrowd]:
    """So many nodes of the cluster's executor, connected to its first admin."""
    (admin,) = cluster.admins
    tokens = [(EXECUTOR, cluster.executor_token)]
    with NodeCrowd(port=admin.port, nodes=nodes, tokens=tokens, slots=slots) as crowd:
        crowd.wait_until_connected()
        yield crowd
