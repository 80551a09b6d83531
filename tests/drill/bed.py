"""The cluster of a drill: two admins and three nodes that meet through fault proxies."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import sqlalchemy as sa

from tests.drill.proxy import FaultProxy, process_of
from tests.e2e.alarms.provider import NETWORKS
from tests.e2e.cluster import NODE_PROGRAM, AdminProcess, Cluster, NodeProcess
from tests.e2e.fires import Fires, Settled
from tests.e2e.ledger import Kind, LedgerReader, Problem, problems, read_journals
from tests.support.polling import wait_until
from tests.support.processes import free_port
from tests.support.servers import DatabaseServer, MariaDB, PostgreSQL
from tests.support.servers.galera import GaleraTrio
from tests.support.servers.postgresql_pair import PostgreSQLPair

KINDS = ("sqlite", "mariadb", "postgresql")
SERVERS: dict[str, type[DatabaseServer]] = {"mariadb": MariaDB, "postgresql": PostgreSQL}
# Servers that hold the same data, one of which takes over when the first one dies.
Replicated = GaleraTrio | PostgreSQLPair
REPLICATED: dict[str, type[Replicated]] = {"galera": GaleraTrio, "standby": PostgreSQLPair}
NODES = ("node-1", "node-2", "node-3")
SLOTS = 20
POINT_VARIABLE = "TICKWHEEL_KILL_POINT"
MEET_SECONDS = 45.0  # a node waits up to 15 s before it knocks again at an admin that was away


class Bed:
    """Admins `admin-1` and, except on SQLite, `admin-2`, which is the one things happen to.

    Every admin has two proxies: nodes reach it through one, and it reaches its database through
    the other. Nodes know each admin by its proxy only.
    """

    def __init__(
        self, kind: str, directory: Path, server: DatabaseServer | Replicated | None
    ) -> None:
        self.kind = kind
        self.server = server
        self._stack = ExitStack()
        self.url = f"sqlite:///{directory / 'tickwheel.db'}"
        if server is not None:
            server.create_database("tickwheel_drill")
            self.url = server.url("tickwheel_drill")
        if isinstance(server, Replicated):
            # Who reads the ledger goes where the admins go.
            self._reading = self._proxy(server.port)
            self.url = _at_port(self.url, self._reading.port)
        self.cluster = self._stack.enter_context(Cluster(directory, self.url))
        self.reader = LedgerReader(self.url)
        self.admin_names = ("admin-1",) if server is None else ("admin-1", "admin-2")
        self.victim = self.admin_names[-1]
        self._ports = {name: free_port() for name in self.admin_names}
        self.links = {
            name: self._proxy(port, nodes=True) for name, port in self._ports.items()
        }  # between nodes and this admin
        self.database_links = (
            {} if server is None else {name: self._proxy(server.port) for name in self.admin_names}
        )  # between this admin and the database
        self.earlier: set[int] = set()  # runs that an earlier scenario has checked
        self.admins: dict[str, AdminProcess] = {}
        self.nodes: dict[str, NodeProcess] = {}
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        for name in self.admin_names:
            self.start_admin(name, meet=False)
            if not self.cluster.executor_id:
                self.cluster.add_executor()
        for name in NODES:
            self.start_node(name)
        for name in self.admin_names:
            self.wait_for_sessions(name)

    def close(self) -> None:
        self._stack.close()

    # --- processes -------------------------------------------------------------------------------

    def start_admin(self, name: str, *, point: str = "", meet: bool = True) -> AdminProcess:
        """Start an admin at its usual place, `point` armed; with `meet`, wait for all nodes."""
        old = self.admins.get(name)
        if old is not None and old.process.is_running:
            assert old.process.stop() == 0, f"{name} did not end well: {old.process.log}"
        environment = NETWORKS | ({POINT_VARIABLE: point} if point else {})
        if self.server is not None:
            port = self.database_links[name].port
            environment["TICKWHEEL_DATABASE_URL"] = _at_port(self.url, port)
        admin = self.cluster.start_admin(
            name,
            port=self._ports[name],
            public_url=self.links[name].url,
            environment=environment,
        )
        self.admins[name] = admin
        if meet:
            self.wait_for_sessions(name)
        return admin

    def start_node(self, name: str, *, point: str = "") -> NodeProcess:
        """Start a node, told of the first admin only; an old one of that name must have ended."""
        armed = ("-m", "tests.drill.node_program", "--point", point)
        node = self.cluster.start_node(
            name,
            slots=SLOTS,
            admins=self.links["admin-1"].url,
            program=armed if point else (str(NODE_PROGRAM),),
        )
        self.nodes[name] = node
        return node

    def wait_for_sessions(self, admin: str) -> None:
        """Until every living node has a socket to this admin."""
        living = sum(node.process.is_running for node in self.nodes.values())
        wait_until(
            lambda: self.sessions(admin) >= living,
            timeout_seconds=MEET_SECONDS,
            what=f"{living} nodes to meet {admin}",
        )

    def sessions(self, admin: str) -> int:
        """How many nodes have a socket to this admin, as the newest process of that name knows."""
        row = self.reader.query(
            "SELECT count(*) FROM node_session s JOIN node n ON n.id = s.node_id"
            " WHERE n.state = 'live' AND s.admin_id ="
            f" (SELECT id FROM admin WHERE name = '{admin}' ORDER BY started_at DESC LIMIT 1)"
        )
        return int(row[0][0])

    # --- faults ----------------------------------------------------------------------------------

    def cut(self, admin: str) -> None:
        """Reset everything that this admin is connected to."""
        self.links[admin].cut()
        if admin in self.database_links:
            self.database_links[admin].cut()

    def cut_node(self, name: str) -> None:
        """Reset a node's sockets to all admins."""
        for link in self.links.values():
            link.cut(name)

    def hold_node(self, name: str) -> None:
        """Let a node's host vanish: nothing passes and nothing is closed."""
        for link in self.links.values():
            link.hold(name)

    def release_node(self, name: str) -> None:
        """Let it come back."""
        for link in self.links.values():
            link.release(name)

    def crash_database(self) -> None:
        """`kill -9` of the server."""
        assert isinstance(self.server, DatabaseServer), "an embedded one dies with its admin"
        self.server.crash()

    def start_database(self) -> None:
        """Start it again, on what it had written."""
        assert isinstance(self.server, DatabaseServer)
        self.server.start()

    def kill_primary(self) -> None:
        """`kill -9` of the server that is written to."""
        assert isinstance(self.server, Replicated)
        self.server.kill_primary()

    def fail_over(self) -> None:
        """Let another server take over, and lead everybody there, as a proxy in front would."""
        assert isinstance(self.server, Replicated)
        port = self.server.fail_over()
        for link in (self._reading, *self.database_links.values()):
            link.retarget(port)

    # --- load ------------------------------------------------------------------------------------

    def fires(
        self,
        name: str,
        *,
        jobs: int = 10,
        per_second: int = 3,
        longest_seconds: float = 0.8,
        serial: bool = True,
    ) -> Fires:
        """Begin to fire, `jobs` times `per_second`, beside one serial job."""
        return Fires(
            self.cluster,
            self.reader,
            name=name,
            jobs=jobs,
            per_second=per_second,
            longest_seconds=longest_seconds,
            serial=serial,
            earlier=self.earlier,
        )

    def settle(self, fires: Fires) -> Settled:
        """Wait until every admin answers and all is quiet; what happened to these fires."""
        for admin in self.admins.values():
            if admin.process.is_running:
                admin.process.wait_for_http(f"{admin.url}/healthz", timeout_seconds=60)
        settled = fires.settle()
        self.earlier |= {run.id for run in settled.ledger.runs}
        return settled

    # --- checks ----------------------------------------------------------------------------------

    def all_problems(self) -> list[Problem]:
        """Everything that ever happened here, once more; and whoever failed unexpectedly."""
        executor = self.cluster.executor_id  # others keep their journals elsewhere
        # Some fail on purpose; what no node runs has no journal.
        others = f"executor_id = {executor} AND handler IN ('fail', 'fail_once', 'workflow')"
        jobs = self.reader.query(
            f"SELECT id FROM job WHERE executor_id = {executor} AND NOT ({others})"
        )
        left_out = self.reader.query(
            f"SELECT id FROM run WHERE job_id IN (SELECT id FROM job WHERE {others})"
        )
        journals = read_journals(
            (node.journal for node in self.cluster.nodes), {row.id for row in left_out}
        )
        ledger = self.reader.read([row.id for row in jobs])
        return problems(ledger, journals, paused_at=0) if jobs else []

    def stuck_runs(self) -> list[Problem]:
        """Runs that have not ended, when they should have."""
        live = self.reader.query(
            "SELECT id, state, reason, attempt, tries, node_id, due_at, deadline_at,"
            " cancel_requested_at, blocking_key FROM run"
            " WHERE state IN ('queued', 'dispatched', 'running')"
        )
        return [Problem(Kind.STUCK, f"run {dict(row._mapping)}") for row in live]

    def tracebacks(self) -> list[str]:
        """Logs in which something failed in a way that nobody thought of."""
        processes = (*self.cluster.admins, *self.cluster.nodes)
        return [str(each.process.log) for each in processes if "Traceback" in each.process.output()]

    def _proxy(self, target: int, *, nodes: bool = False) -> FaultProxy:
        owner = self._node_of if nodes else None
        proxy = FaultProxy(target) if owner is None else FaultProxy(target, owner=owner)
        return self._stack.enter_context(proxy)

    def _node_of(self, port: int) -> str:
        names = {node.process.pid: node.name for node in self.cluster.nodes}
        pid = process_of(port, [*names])
        return names.get(pid, "somebody") if pid is not None else "somebody"


def _at_port(url: str, port: int) -> str:
    return sa.make_url(url).set(port=port).render_as_string(hide_password=False)


@contextmanager
def made(kind: str, *, keep: Path | None = None) -> Iterator[Bed]:
    """A cluster with the durable settings of production, ended afterwards; logs go to `keep`."""
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="tickwheel-drill-", dir=keep))
        if keep is None:
            stack.callback(shutil.rmtree, directory)
        server: DatabaseServer | Replicated | None = None
        if kind in SERVERS:
            server = stack.enter_context(SERVERS[kind](durable=True))
        elif kind in REPLICATED:
            server = stack.enter_context(REPLICATED[kind]())
        bed = Bed(kind, directory, server)
        stack.callback(bed.close)
        yield bed
