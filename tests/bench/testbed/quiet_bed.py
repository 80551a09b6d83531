"""One admin with nothing to do: triggers far in the future, and very many idle nodes."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec
import sqlalchemy as sa

from tests.bench.seed.writer import Writer, line
from tests.bench.testbed.bed import SERVERS
from tests.bench.testbed.measure import cpu_seconds
from tests.bench.testbed.node_crowd import Report
from tests.e2e.cluster import EXECUTOR, Cluster
from tests.support.polling import wait_until
from tickwheel_admin.domain.input.job import config_to_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.triggers.planning import bucket_of

FIRST_ID = 2**40  # far from the ids that the admin gives
DAY_MS = 86_400_000
TRIGGERS_PER_JOB = 50
NODES_PER_PROCESS = 5_000
CONNECT_SECONDS = 240.0


class NodeCrowd:
    """Simulated nodes in processes of their own."""

    def __init__(
        self,
        *,
        ports: Sequence[int],
        nodes: int,
        tokens: Sequence[tuple[str, str]],
        slots: int = 16,
    ) -> None:
        """Nodes that are connected to the admins at all these ports."""
        self._nodes = nodes
        self._ports = ports
        self._processes = [
            subprocess.Popen(
                [
                    sys.executable, "-m", "tests.bench.testbed.node_crowd",
                    *(f"--port={port}" for port in ports),
                    "--nodes", str(min(NODES_PER_PROCESS, nodes - first)), "--first", str(first),
                    "--slots", str(slots),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for first in range(0, nodes, NODES_PER_PROCESS)
        ]  # fmt: skip
        for each in self._processes:
            assert each.stdin is not None
            each.stdin.write("".join(f"{name} {token}\n" for name, token in tokens) + "\n")
            each.stdin.flush()

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._processes]

    def report(self) -> Report:
        """Of all processes together, and how long acknowledgements took since the last report."""
        whole = Report(connected=0, welcomed=0, cut_off=0, acknowledged_ms={})
        acknowledged: Counter[int] = Counter()
        for each in self._processes:
            assert each.stdin is not None
            assert each.stdout is not None
            each.stdin.write("report\n")
            each.stdin.flush()
            part = msgspec.json.decode(each.stdout.readline(), type=Report)
            whole.connected += part.connected
            whole.welcomed += part.welcomed
            whole.cut_off += part.cut_off
            acknowledged.update(part.acknowledged_ms)
        whole.acknowledged_ms = dict(acknowledged)
        return whole

    def wait_until_connected(self, *, admins: int | None = None) -> None:
        """All of them at once.

        Args:
            admins: that run now; None: all.
        """
        sockets = self._nodes * (len(self._ports) if admins is None else admins)
        wait_until(
            lambda: self.report().connected == sockets,
            timeout_seconds=CONNECT_SECONDS,
            what=f"all {self._nodes} nodes are connected",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._processes:
            each.kill()
            each.communicate()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietBed:
    """An admin, its database, and the nodes that were asked for; no node of the SDK."""

    cluster: Cluster
    crowd: NodeCrowd
    database: Database
    server_pid: int | None  # None: SQLite, in the admin

    @property
    def admin_pid(self) -> int:
        """Of the admin that runs now."""
        return self.cluster.admins[-1].process.pid

    def cpu_seconds(self) -> dict[str, float]:
        """Processor time so far; SQLite's is the admin's."""
        return {
            "admin": cpu_seconds([self.admin_pid]),
            "database": cpu_seconds([] if self.server_pid is None else [self.server_pid]),
        }

    def asked_of_database(self) -> dict[str, int]:
        """What its server has counted so far; nothing of SQLite."""
        return self.database.read_sync(_counted)

    def deaths(self) -> int:
        """How many nodes the admins so far have declared dead."""
        return sum(each.process.output().count('"node.expired"') for each in self.cluster.admins)


@contextmanager
def quiet(
    kind: str,
    *,
    triggers: int,
    nodes: int,
    executors: int = 1,
    old_runs: int = 0,
    triggers_per_job: int = TRIGGERS_PER_JOB,
) -> Iterator[QuietBed]:
    """Start a server with durable settings, an admin, and nodes that connect meanwhile."""
    _allow_sockets(nodes)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench")))
        server_pid = None
        if kind == "sqlite":
            url = f"sqlite:///{directory / 'tickwheel.db'}"
        else:
            # The bench's own statements, such as LOAD DATA, are not limited by it.
            server = stack.enter_context(SERVERS[kind](durable=True))
            server.create_database("tickwheel")
            url, server_pid = server.url("tickwheel"), server.pid
        cluster = stack.enter_context(Cluster(directory, url, forks_admins=False))
        admin = cluster.start_admin()
        cluster.add_executor()
        tokens = [(EXECUTOR, cluster.executor_token)]
        for number in range(1, executors):
            made = cluster.api().post("/executors", {"name": f"{EXECUTOR}-{number}"})
            tokens.append((f"{EXECUTOR}-{number}", made["token"]))
        writer = Writer(url)
        _write_jobs(writer, cluster.executor_id, triggers=triggers, per_job=triggers_per_job)
        _write_runs(writer, cluster.executor_id, runs=old_runs)
        writer.analyze()
        writer.engine.dispose()
        database = Database(url, threads=1)
        stack.callback(database.close_sync)
        crowd = stack.enter_context(NodeCrowd(ports=[admin.port], nodes=nodes, tokens=tokens))
        yield QuietBed(cluster=cluster, crowd=crowd, database=database, server_pid=server_pid)


def _allow_sockets(nodes: int) -> None:
    """For the processes of the nodes, which inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(nodes, NODES_PER_PROCESS) + 200
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))


def _write_jobs(writer: Writer, executor_id: int, *, triggers: int, per_job: int) -> None:
    """Jobs of so many triggers each, none of them due within a month."""
    now = round(time.time() * 1000)
    first_at = now + 30 * DAY_MS
    jobs = range(FIRST_ID, FIRST_ID + -(-triggers // per_job))
    config = config_to_json(JobConfig(name="idle", handler="noop"))
    writer.write_all(
        tables.job,
        [
            "id", "executor_id", "name", "handler", "owner", "tags", "revision", "paused",
            "route_cursor", "created_at", "updated_at", "deleted_at",
        ],
        (line(n, executor_id, f"idle-{n}", "noop", "", "", 1, False, 0, now, now, 0) for n in jobs),
    )  # fmt: skip
    writer.write_all(
        tables.job_revision,
        ["job_id", "revision", "config", "created_at", "created_by"],
        (line(n, 1, config, now, "bench") for n in jobs),
    )
    spec = spec_to_json(FixedRateSpec(every_ms=DAY_MS, anchor_at=first_at))
    writer.write_all(
        tables.trigger,
        [
            "id", "job_id", "executor_id", "bucket", "spec", "paused", "state", "next_fire_at",
            "fires", "version", "created_at",
        ],
        (
            line(
                n, FIRST_ID + (n - FIRST_ID) // per_job, executor_id, bucket_of(n), spec,
                False, "active", first_at + n % DAY_MS, 0, 1, now,
            )
            for n in range(FIRST_ID, FIRST_ID + triggers)
        ),
    )  # fmt: skip


def _write_runs(writer: Writer, executor_id: int, *, runs: int) -> None:
    """Runs of one job that have ended, one a second until an hour ago."""
    until = round(time.time() * 1000) - 3_600_000
    writer.write_all(
        tables.run,
        [
            "id", "executor_id", "job_id", "job_revision", "origin", "scheduled_at", "shard_index",
            "shard_total", "priority", "created_at", "state", "due_at", "attempt", "tries",
            "started_at", "ended_at", "log_lines",
        ],
        (
            line(
                FIRST_ID + n, executor_id, FIRST_ID, 1, "api", until - (runs - n) * 1_000, 0, 1, 5,
                until, "succeeded", until, 1, 1, until, until, 0,
            )
            for n in range(runs)
        ),
    )  # fmt: skip


def _counted(conn: sa.Connection) -> dict[str, int]:
    if conn.dialect.name == "sqlite":
        return {}
    if conn.dialect.name == "postgresql":
        commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
        return {"transactions": int(conn.exec_driver_sql(commits).scalar_one())}
    asked = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Com_commit')"
    names = {"Questions": "statements", "Com_commit": "commits"}
    return {names[name]: int(count) for name, count in conn.exec_driver_sql(asked)}
