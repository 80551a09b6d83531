"""What is measured: admins and nodes over one database, every part a process of its own."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from tests.bench.testbed.measure import cpu_seconds
from tests.e2e.cluster import Cluster
from tests.support.polling import wait_until
from tests.support.servers import DatabaseServer, MariaDB, PostgreSQL
from tickwheel_admin.store.database.database import Database

KINDS = ("sqlite", "mariadb", "postgresql")
MYSQLCLIENT = "mariadb+mysqldb"  # MariaDB by another driver than the default one
CHOICES = (*KINDS, MYSQLCLIENT)
SERVERS: dict[str, type[DatabaseServer]] = {
    "mariadb": MariaDB,
    MYSQLCLIENT: MariaDB,
    "postgresql": PostgreSQL,
}
NODES = 2
SLOTS = 500
CALM_SHARE = 0.08  # of a core, for each admin and its part of the database together
CALM_SECONDS = 2.0


def missing(kind: str) -> str | None:
    """What this machine lacks to measure the kind, or None."""
    if kind in SERVERS and not SERVERS[kind].is_installed():
        return f"{SERVERS[kind].name} is not installed"
    if kind == MYSQLCLIENT and importlib.util.find_spec("MySQLdb") is None:
        return "mysqlclient is not installed"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """A cluster that waits for work, and a connection to its database."""

    kind: str
    cluster: Cluster
    database: Database
    server_pids: list[int] = field(default_factory=list)
    crowd_pids: list[int] = field(default_factory=list)  # of simulated nodes that count as nodes
    noop_job: int = 0  # its job of the handler that does nothing

    def cpu_seconds(self) -> dict[str, float]:
        """Processor time so far; SQLite's is the admin's."""
        return {
            "admin": cpu_seconds([admin.process.pid for admin in self.cluster.admins]),
            "nodes": cpu_seconds(
                [*(node.process.pid for node in self.cluster.nodes), *self.crowd_pids]
            ),
            "database": cpu_seconds(self.server_pids),
        }

    def wait_until_calm(self, *, timeout_seconds: float = 300) -> None:
        """Return when what came before is worked off: purges, statistics, counting of hours."""

        def calm() -> bool:
            before = self.cpu_seconds()
            time.sleep(CALM_SECONDS)
            after = self.cpu_seconds()
            spent = sum(after[name] - before[name] for name in ("admin", "database"))
            admins = sum(each.process.is_running for each in self.cluster.admins)
            return spent < CALM_SHARE * CALM_SECONDS * admins

        wait_until(calm, timeout_seconds=timeout_seconds, what="admin and database to be idle")


@contextmanager
def made(
    kind: str,
    *,
    nodes: int = NODES,
    slots: int = SLOTS,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Bed]:
    """Start one admin and everything with the settings of production, and end it afterwards.

    Args:
        environment: of the admin besides.
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench")))
        server_pids = []
        if kind == "sqlite":
            url = f"sqlite:///{directory / 'tickwheel.db'}"
        else:
            server = stack.enter_context(SERVERS[kind](durable=True))
            server.create_database("tickwheel")
            url = url_of(kind, server, "tickwheel")
            server_pids = [server.pid]
        cluster = stack.enter_context(Cluster(directory, url, forks_admins=False))
        cluster.start_admin(environment=environment)
        cluster.add_executor()
        for number in range(1, nodes + 1):
            cluster.start_node(f"node-{number}", slots=slots)
        database = Database(url, threads=1)
        stack.callback(database.close_sync)
        yield Bed(
            kind=kind,
            cluster=cluster,
            database=database,
            server_pids=server_pids,
            noop_job=cluster.add_job("does-nothing", "noop"),
        )


def url_of(kind: str, server: DatabaseServer, database: str) -> str:
    """The URL of a database of the server, with the driver of the kind."""
    url = server.url(database)
    if kind == MYSQLCLIENT:
        other = sa.make_url(url).set(drivername="mysql+mysqldb")
        other = other.difference_update_query(["ssl_disabled"])  # a word of PyMySQL's
        return other.render_as_string(hide_password=False)
    return url
