"""What batches are worth: the product beside an admin that does each run alone, as XXL-JOB does.

    python -m tests.bench.scenarios.one_by_one [--database mariadb] [--runs 5000]

The same runs, table, durable database server and handler; per run one claim transaction, one POST
to the node and one POST back, one recording transaction. Both are measured in turns.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.scenarios.flood import Flood, flood
from tests.bench.testbed.bed import KINDS, NODES, SERVERS, SLOTS, Bed
from tests.bench.testbed.measure import cpu_seconds
from tests.e2e.cluster import ROOT, Cluster
from tests.support.processes import ManagedProcess, free_port
from tickwheel_admin.store.database.database import Database

RUNS = 5_000  # of the product four times as many, which take about as long
WARM_UP_RUNS = 500
REPEATS = 3
# What proved quickest here, of 32 to 200 and 8 to 48; XXL-JOB's own pools hold 200 and 100 threads.
SENDERS = 100
CONNECTIONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class OneByOne:
    """Medians of the repeats; processor time in microseconds per run by admin, nodes, database."""

    runs_per_second: int
    runs_per_second_all: list[int]
    cpu_us_per_run: dict[str, int]
    product_runs_per_second: int
    product_runs_per_second_all: list[int]
    product_cpu_us_per_run: dict[str, int]
    ratio: float  # how many times as many runs a second the product does
    cpu_ratio: float  # how many times as much processor time a run costs one by one, in all


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rival(Bed):
    """The other admin and its nodes over the same database."""

    admin_pid: int
    node_pids: list[int]

    def cpu_seconds(self) -> dict[str, float]:
        return {
            "admin": cpu_seconds([self.admin_pid]),
            "nodes": cpu_seconds(self.node_pids),
            "database": cpu_seconds(self.server_pids),
        }


def one_by_one(kind: str, *, runs: int = RUNS, repeats: int = REPEATS) -> OneByOne:
    """Measure both on a database of the kind, in turns.

    Args:
        runs: done one by one in each repeat; the product does four times as many.
    """
    ours: list[Flood] = []
    theirs: list[Flood] = []
    with _database(kind) as (directory, url, server_pids), ExitStack() as stack:
        database = Database(url, threads=1)
        stack.callback(database.close_sync)
        cluster = stack.enter_context(Cluster(directory, url, forks_admins=False))
        for number in range(repeats):
            with _product(cluster, kind, database, server_pids) as bed:
                job_id = cluster.add_job(f"noop-{number}", "noop")
                flood(bed, job_id=job_id, runs=WARM_UP_RUNS * 4)
                ours.append(flood(bed, job_id=job_id, runs=runs * 4))
            with _rival(cluster, kind, database, server_pids) as rival:
                flood(rival, job_id=job_id, runs=WARM_UP_RUNS)
                theirs.append(flood(rival, job_id=job_id, runs=runs))
    ours_per_second, theirs_per_second = _rates(ours), _rates(theirs)
    ours_cpu, theirs_cpu = _cpu_us_per_run(ours), _cpu_us_per_run(theirs)
    ratio = statistics.median(ours_per_second) / statistics.median(theirs_per_second)
    return OneByOne(
        runs_per_second=round(statistics.median(theirs_per_second)),
        runs_per_second_all=theirs_per_second,
        cpu_us_per_run=theirs_cpu,
        product_runs_per_second=round(statistics.median(ours_per_second)),
        product_runs_per_second_all=ours_per_second,
        product_cpu_us_per_run=ours_cpu,
        ratio=round(ratio, 1),
        cpu_ratio=round(sum(theirs_cpu.values()) / sum(ours_cpu.values()), 1),
    )


@contextmanager
def _database(kind: str) -> Iterator[tuple[Path, str, list[int]]]:
    """A scratch directory, the URL of an empty database, and the server's processes."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench")))
        if kind == "sqlite":
            yield directory, f"sqlite:///{directory / 'tickwheel.db'}", []
            return
        server = stack.enter_context(SERVERS[kind](durable=True))
        server.create_database("tickwheel")
        yield directory, server.url("tickwheel"), [server.pid]


@contextmanager
def _product(
    cluster: Cluster, kind: str, database: Database, server_pids: list[int]
) -> Iterator[Bed]:
    cluster.admins.clear()
    cluster.nodes.clear()
    admin = cluster.start_admin()
    if not cluster.executor_id:
        cluster.add_executor()
    nodes = [cluster.start_node(f"node-{n}", slots=SLOTS) for n in range(1, NODES + 1)]
    yield Bed(kind=kind, cluster=cluster, database=database, server_pids=server_pids)
    for process in (*(node.process for node in nodes), admin.process):
        process.stop()


@contextmanager
def _rival(
    cluster: Cluster, kind: str, database: Database, server_pids: list[int]
) -> Iterator[_Rival]:
    admin_port = free_port()
    ports = [free_port() for _ in range(NODES)]
    with ExitStack() as stack:

        def started(name: str, program: str, arguments: Sequence[str]) -> ManagedProcess:
            process = ManagedProcess(
                [sys.executable, "-m", f"tests.bench.scenarios.{program}", *arguments],
                cluster.directory / f"{name}.log",
                directory=ROOT,
            )
            stack.enter_context(process)
            process.wait_for_line("^ready$", timeout_seconds=20)
            return process

        nodes = [
            started(
                f"one-by-one-node-{number}-{port}",
                "one_by_one_node",
                ["--port", str(port), "--admin", f"http://127.0.0.1:{admin_port}"],
            )
            for number, port in enumerate(ports, start=1)
        ]
        urls = [part for port in ports for part in ("--node", f"http://127.0.0.1:{port}")]
        admin = started(
            f"one-by-one-admin-{admin_port}",
            "one_by_one_admin",
            [
                "--url", cluster.database_url, "--port", str(admin_port),
                "--executor", str(cluster.executor_id), "--senders", str(SENDERS),
                "--connections", str(CONNECTIONS), *urls,
            ],
        )  # fmt: skip
        yield _Rival(
            kind=kind,
            cluster=cluster,
            database=database,
            server_pids=server_pids,
            admin_pid=admin.pid,
            node_pids=[node.pid for node in nodes],
        )


def _rates(floods: Sequence[Flood]) -> list[int]:
    return [round(each.runs_per_second) for each in floods]


def _cpu_us_per_run(floods: Sequence[Flood]) -> dict[str, int]:
    return {
        name: round(statistics.median(f.cpu_seconds[name] / f.runs for f in floods) * 1e6)
        for name in floods[0].cpu_seconds
    }


def print_one_by_one(kind: str, result: OneByOne) -> None:
    """A line for each of the two, and what they say."""
    for name, rate, cpu in (
        ("one by one", result.runs_per_second, result.cpu_us_per_run),
        ("product", result.product_runs_per_second, result.product_cpu_us_per_run),
    ):
        costs = ", ".join(f"{part} {micros}" for part, micros in cpu.items())
        print(f"{kind:<11} {name:<11}{rate:>7,} runs/s   processor µs per run: {costs}")
    print(
        f"{kind:<11} the product does {result.ratio} times as many runs a second,"
        f" each for 1/{result.cpu_ratio} of the processor time",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", choices=KINDS, default="mariadb")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    asked = parser.parse_args()
    print_one_by_one(
        asked.database, one_by_one(asked.database, runs=asked.runs, repeats=asked.repeats)
    )


if __name__ == "__main__":
    main()
