"""What is measured: one admin and two nodes over one database, every part a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.measure import cpu_seconds
from tests.e2e.cluster import Cluster
from tests.support.servers import DatabaseServer, MariaDB, PostgreSQL
from tickwheel_admin.store.database import Database

KINDS = ("sqlite", "mariadb", "postgresql")
SERVERS: dict[str, type[DatabaseServer]] = {"mariadb": MariaDB, "postgresql": PostgreSQL}
NODES = 2
SLOTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """A cluster that waits for work, and a connection to its database."""

    kind: str
    cluster: Cluster
    database: Database
    server_pids: list[int] = field(default_factory=list)

    def cpu_seconds(self) -> dict[str, float]:
        """Processor time so far; SQLite's is the admin's."""
        return {
            "admin": cpu_seconds([admin.process.pid for admin in self.cluster.admins]),
            "nodes": cpu_seconds([node.process.pid for node in self.cluster.nodes]),
            "database": cpu_seconds(self.server_pids),
        }


@contextmanager
def made(kind: str) -> Iterator[Bed]:
    """Start everything with the durable settings of production, and end it afterwards."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench")))
        server_pids = []
        if kind == "sqlite":
            url = f"sqlite:///{directory / 'tickwheel.db'}"
        else:
            server = stack.enter_context(SERVERS[kind](durable=True))
            server.create_database("tickwheel")
            url = server.url("tickwheel")
            server_pids = [server.pid]
        cluster = stack.enter_context(Cluster(directory, url))
        cluster.start_admin()
        cluster.add_executor()
        for number in range(1, NODES + 1):
            cluster.start_node(f"node-{number}", slots=SLOTS)
        database = Database(url, threads=1)
        stack.callback(database.close_sync)
        yield Bed(kind=kind, cluster=cluster, database=database, server_pids=server_pids)
