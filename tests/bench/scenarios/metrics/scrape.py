"""What `/metrics` costs: a scrape of a large installation, and counting.

python -m tests.bench.scenarios.metrics.scrape --database mariadb
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from tests.admin.domain.runs.test_moves import parked
from tests.bench.testbed.bed import KINDS, SERVERS
from tests.bench.testbed.measure import cpu_seconds
from tickwheel_admin.cli.serve import SWITCH_SECONDS
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Move
from tickwheel_admin.services.metrics.exposition import OPEN_METRICS, MetricsPage
from tickwheel_admin.services.metrics.figures import AdminFigures
from tickwheel_admin.services.metrics.installation import KEPT_SECONDS
from tickwheel_admin.services.metrics.meter import Meter
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.facts import TransactionFacts
from tickwheel_shared.protocol import Outcome

FAR = 4_000_000_000_000
BATCH = 500  # moves of one transaction
BEAT_SECONDS = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """One measurement."""

    executors: int
    nodes: int
    waiting: int  # runs
    series: int
    kibibytes: int
    scrape_p50_ms: float  # from the request to the page, the database's part included
    scrape_max_ms: float
    cpu_ms: float  # of the whole process for a scrape, median
    database_cpu_ms: float  # of the database server for a scrape, mean; SQLite's is the process's
    blocked_p50_ms: float  # the longest time in a scrape in which the event loop did nothing else
    blocked_max_ms: float
    counted_us_per_run: float  # to count a claim, a start and an end


def scrape(kind: str, *, executors: int, nodes: int, waiting: int, scrapes: int) -> Scrape:
    """Scrape an admin all of whose executors with series of their own have run something."""
    sys.setswitchinterval(SWITCH_SECONDS)
    meter = Meter()
    with _database(kind, meter) as (database, server_pids):
        _fill(database, executors=executors, nodes=nodes, waiting=waiting)
        counted_us = _count(meter, executors)
        return asyncio.run(
            _measure(
                database,
                meter,
                scrapes=scrapes,
                server_pids=server_pids,
                executors=executors,
                nodes=nodes,
                waiting=waiting,
                counted_us_per_run=counted_us,
            )
        )


async def _measure(
    database: Database, meter: Meter, *, scrapes: int, server_pids: list[int], **told: Any
) -> Scrape:
    now = 0.0  # so that each scrape reads the database
    here = AdminFigures(version="0", name="bench", database="")
    page = MetricsPage(database, meter, lambda: here, max_executors=100, clock=lambda: now)
    body, _ = await page.render(OPEN_METRICS)
    took, cpu, blocked = [], [], []
    server_before = cpu_seconds(server_pids)
    for _ in range(scrapes):
        now += KEPT_SECONDS
        cpu_before, began = time.process_time(), time.perf_counter()
        await page.render(OPEN_METRICS)  # what Prometheus asks for
        took.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - cpu_before) * 1000)
    server_seconds = cpu_seconds(server_pids) - server_before
    for _ in range(scrapes):  # once more: to look at the event loop costs processor time as well
        now += KEPT_SECONDS
        blocked.append(max(await _gaps(page)) * 1000)
    return Scrape(
        **told,
        series=sum(not line.startswith(b"#") for line in body.splitlines()),
        kibibytes=len(body) // 1024,
        scrape_p50_ms=round(median(took), 1),
        scrape_max_ms=round(max(took), 1),
        cpu_ms=round(median(cpu), 1),
        database_cpu_ms=round(server_seconds / scrapes * 1000, 1),
        blocked_p50_ms=round(median(blocked), 1),
        blocked_max_ms=round(max(blocked), 1),
    )


async def _gaps(page: MetricsPage) -> list[float]:
    """How much later than asked for the event loop came back during a scrape, again and again."""
    gaps: list[float] = []
    beating = asyncio.create_task(_beat(gaps))
    await asyncio.sleep(0.02)
    gaps.clear()
    await page.render(OPEN_METRICS)
    await asyncio.sleep(0.005)
    beating.cancel()
    return gaps


async def _beat(gaps: list[float]) -> None:
    """Note how much later than asked for the event loop comes back."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(BEAT_SECONDS)
        gaps.append(time.perf_counter() - began - BEAT_SECONDS)


def _count(meter: Meter, executors: int) -> float:
    """Let every executor have ended runs; microseconds to count one of them."""
    facts = [_facts(range(first, first + BATCH), executors) for first in range(0, 20_000, BATCH)]
    began = time.process_time()
    for each in facts:
        meter.committed(each)
    return round((time.process_time() - began) / 20_000 * 1_000_000, 2)


def _facts(numbers: Sequence[int], executors: int) -> TransactionFacts:
    claims = [_claim(number, executors) for number in numbers]
    starts = [moves.accepted(each.after, timeout_ms=None, now=12_050) for each in claims]
    ends = [
        moves.ended(
            each.after,
            Outcome.SUCCEEDED,
            RetryPolicy(retries=0, delay_ms=0),
            duration_ms=number % 100_000,
            result=None,
            message=None,
            log_lines=0,
            now=1_000_000,
        )
        for number, each in zip(numbers, starts, strict=True)
    ]
    return TransactionFacts(moves=[claims, starts, ends])


def _claim(number: int, executors: int) -> Move:
    run = parked(id=number, executor_id=number % executors + 1, due_at=12_000)
    return moves.claimed(run, node_id=1, token="t", now=12_010)


@contextmanager
def _database(kind: str, meter: Meter) -> Iterator[tuple[Database, list[int]]]:
    """The database, and the processes of its server."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tickwheel-bench")))
        url = f"sqlite:///{directory / 'tickwheel.db'}"
        server_pids = []
        if kind != "sqlite":
            server = stack.enter_context(SERVERS[kind](durable=True))
            server.create_database("tickwheel")
            url = server.url("tickwheel")
            server_pids = [server.pid]
        database = Database(url, threads=4, meter=meter)
        stack.callback(database.close_sync)
        tables.metadata.create_all(database.engine)
        yield database, server_pids


def _fill(database: Database, *, executors: int, nodes: int, waiting: int) -> None:
    def rows(table: Any, count: int, **values: Any) -> None:
        made = [
            {name: value(number) if callable(value) else value for name, value in values.items()}
            for number in range(1, count + 1)
        ]
        for start in range(0, count, 2_000):
            part = made[start : start + 2_000]
            database.run_sync(insert_rows, table, part, columns=tuple(values))

    rows(
        tables.executor, executors, id=int, name=lambda n: f"executor-{n}", description="",
        token_hash=str, created_at=lambda n: 2 * n, deleted_at=0,
    )  # fmt: skip
    rows(
        tables.node, nodes, id=int, executor_id=lambda n: n % executors + 1, node_key=str,
        name=lambda n: f"node-{n}", state="live", draining=False, cordoned=False,
        drain_wanted=False, slots=4, in_use=1, weight=1, handlers="[]", unstoppable="[]",
        labels="{}", sdk="", address="", connected_at=1, lease_expires_at=FAR, full_lease_at=FAR,
    )  # fmt: skip
    rows(
        tables.run, waiting, id=int, executor_id=lambda n: n % executors + 1, job_id=int,
        job_revision=1, origin="manual", scheduled_at=1, shard_index=0, shard_total=1, priority=5,
        created_at=1, state="queued", due_at=1, attempt=0, tries=0, log_lines=0,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.metrics.scrape", description=__doc__
    )
    parser.add_argument("--database", action="append", choices=KINDS, help="default: all three")
    parser.add_argument("--scrapes", type=int, default=30)
    asked = parser.parse_args()
    for kind in asked.database or KINDS:
        amount = {"executors": 300, "nodes": 1_000, "waiting": 20_000}
        print(kind, scrape(kind, scrapes=asked.scrapes, **amount), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
