"""What auditing one hour costs, and how long it holds up whatever else its admin does.

python -m tests.bench.scenarios.maintenance.self_audit --database mariadb --triggers 10000
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.admin.kit.work_counter import counted
from tests.bench.testbed.bed import KINDS, SERVERS, url_of
from tests.support.databases import sqlite_with_tables
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.engine.maintenance.self_audit import HOUR_MS, SelfAudit
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.tables import job, metadata, run, trigger
from tickwheel_admin.store.self_audit.results import EVERYBODY, AuditedHour, read_hours

TICK_SECONDS = 0.005
QUIET_SECONDS = 2.0
ROWS_PER_BATCH = 5_000
MINUTE_MS = 60_000
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai", "Australia/Lord_Howe")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfAuditCost:
    """One hour."""

    triggers: int
    audited: int  # of these
    runs: int  # in the ledger
    expected: int  # that were compared
    differences: int  # none, if the bench is right
    seconds: float
    cpu_seconds: float  # of the process, the audit's thread among it
    statements: int
    touched: int  # as tests.admin.kit.work_counter says
    alone_p99_ms: float  # how long something else in the process waits for its turn without it
    waits_p99_ms: float  # and beside it
    waits_max_ms: float


def self_audit(kind: str, *, triggers: int, fires: int) -> SelfAuditCost:
    """Audit an hour in which each trigger fired so many times."""
    with _database(kind) as database:
        return asyncio.run(_measure(database, triggers, fires))


@contextmanager
def _database(kind: str) -> Iterator[Database]:
    if kind not in SERVERS:
        with tempfile.TemporaryDirectory(prefix="tickwheel-bench-") as directory:
            database = Database(sqlite_with_tables(Path(directory, "tickwheel.db")))
            yield database
            database.close_sync()
        return
    with SERVERS[kind](durable=True) as server:
        server.create_database("tickwheel")
        database = Database(url_of(kind, server, "tickwheel"))
        metadata.create_all(database.engine)
        yield database
        database.close_sync()


async def _measure(database: Database, triggers: int, fires: int) -> SelfAuditCost:
    now = await database.read(now_ms)
    # The last hour of which the five minutes after it are over.
    hour_at = (now - 5 * MINUTE_MS) // HOUR_MS * HOUR_MS - HOUR_MS
    _fill(database, hour_at, triggers=triggers, fires=fires)
    _count_rows(database)
    audit = SelfAudit(database, admin_id=1, retention_days=30)
    await audit._due(now)  # what is prepared once is not measured
    alone_ms = await _waits(asyncio.sleep(QUIET_SECONDS))
    async with counted(database) as work:
        cpu, began = time.process_time(), time.perf_counter()
        beside_ms = await _waits(audit._audit(hour_at))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    [hour] = await database.read(
        lambda c: read_hours(c, from_at=hour_at, to_at=hour_at + 1, executors=[EVERYBODY])
    )
    return SelfAuditCost(
        triggers=triggers,
        audited=hour.audited,
        runs=triggers * fires,
        expected=hour.expected,
        differences=_differences(hour),
        seconds=round(seconds, 2),
        cpu_seconds=round(cpu, 2),
        statements=work.statements,
        touched=work.touched,
        alone_p99_ms=alone_ms[0],
        waits_p99_ms=beside_ms[0],
        waits_max_ms=beside_ms[1],
    )


def _differences(hour: AuditedHour) -> int:
    return hour.missing + hour.doubled + hour.late + hour.unexplained


async def _waits(work: Awaitable[object]) -> tuple[float, float]:
    """The 99th percentile and the largest of how long, in ms, a turn is waited for meanwhile."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            late.append(time.perf_counter() - began - TICK_SECONDS)

    ticking = asyncio.create_task(tick())
    await work
    ticking.cancel()
    late.sort()
    return round(late[len(late) * 99 // 100] * 1_000, 1), round(late[-1] * 1_000, 1)


# --- what is audited -------------------------------------------------------------------------


def _fill(database: Database, hour_at: int, *, triggers: int, fires: int) -> None:
    """Cron in five zones; one in ten has a fixed rate, and one in ten a fixed delay."""
    step = 60 // fires
    of_all = {
        "id": 1, "executor_id": 1, "name": "audited", "handler": "h", "owner": "", "tags": "",
        "revision": 1, "paused": False, "route_cursor": 0, "created_at": 0, "updated_at": 0,
        "deleted_at": 0,
    }  # fmt: skip
    _write(database, job, [of_all])
    rows, runs = [], []
    run_ids = count(1)
    for trigger_id in range(1, triggers + 1):
        minute = trigger_id % step
        instants = [hour_at + (minute + step * n) * MINUTE_MS for n in range(fires)]
        spec = _spec(trigger_id, minute, step, hour_at)
        rows.append(
            {
                "id": trigger_id, "job_id": 1, "executor_id": 1, "bucket": trigger_id % 16,
                "spec": spec_to_json(spec), "paused": False, "state": "active",
                "next_fire_at": instants[-1] + 3 * HOUR_MS, "last_fire_at": instants[-1],
                "version": 1, "fires": fires, "created_at": hour_at - 1, "since_at": hour_at - 1,
            }
        )  # fmt: skip
        before: int | None = None
        for at in instants:
            runs.append(_run(next(run_ids), trigger_id, at, before if spec.follows_runs else None))
            before = at
    _write(database, trigger, rows)
    _write(database, run, runs)


def _spec(number: int, minute: int, step: int, hour_at: int) -> TriggerSpec:
    if number % 10 == 0:
        return FixedDelaySpec(every_ms=step * MINUTE_MS)
    if number % 10 == 1:
        anchor = hour_at + minute * MINUTE_MS
        return FixedRateSpec(every_ms=step * MINUTE_MS, anchor_at=anchor)
    minutes = ",".join(str(each) for each in range(minute, 60, step))
    return CronSpec(
        expression=f"{minutes} * * * *", dialect="unix", timezone=ZONES[number % len(ZONES)]
    )


def _run(run_id: int, trigger_id: int, at: int, follows_at: int | None) -> dict[str, Any]:
    return {
        "id": run_id, "executor_id": 1, "job_id": 1, "job_revision": 1, "trigger_id": trigger_id,
        "origin": "schedule", "scheduled_at": at, "follows_at": follows_at, "shard_index": 0,
        "shard_total": 1, "priority": 5, "created_at": at - 1_000, "state": "succeeded",
        "due_at": at, "attempt": 1, "tries": 1, "ended_at": at + 100, "log_lines": 0,
    }  # fmt: skip


def _write(database: Database, table: Any, rows: Sequence[dict[str, Any]]) -> None:
    for first in range(0, len(rows), ROWS_PER_BATCH):
        some = rows[first : first + ROWS_PER_BATCH]
        database.run_sync(insert_rows, table, some, columns=tuple(some[0]))


def _count_rows(database: Database) -> None:
    """Servers do it by themselves after a while, and choose their plans by it."""
    tables = f"{run.name}, {database.engine.dialect.identifier_preparer.quote(trigger.name)}"
    words = {"postgresql": "ANALYZE", "mysql": "ANALYZE TABLE"}
    if words_of := words.get(database.engine.dialect.name):
        with database.engine.begin() as conn:
            conn.execute(sa.text(f"{words_of} {tables}")).close()


# --- the command -----------------------------------------------------------------------------


def print_cost(kind: str, cost: SelfAuditCost) -> None:
    """One line of the table."""
    print(
        f"{kind:<11} audit   {cost.triggers:>7,} triggers, {cost.audited:,} audited,"
        f" {cost.expected:,} fires: {cost.seconds:.2f} s, {cost.cpu_seconds:.2f} s of a core,"
        f" {cost.statements:,} statements, {cost.touched:,} rows or steps;"
        f" others wait {cost.waits_p99_ms:g} ms (p99; alone {cost.alone_p99_ms:g}),"
        f" {cost.waits_max_ms:g} ms (max);"
        f" {cost.differences} differences",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.scenarios.maintenance.self_audit", description=__doc__
    )
    parser.add_argument("--database", action="append", choices=KINDS, help="default: all three")
    parser.add_argument("--triggers", type=int, default=10_000)
    parser.add_argument("--fires", type=int, default=6, help="of each in the hour")
    arguments = parser.parse_args()
    for kind in arguments.database or KINDS:
        cost = self_audit(kind, triggers=arguments.triggers, fires=arguments.fires)
        print_cost(kind, cost)
    return 0


if __name__ == "__main__":
    sys.exit(main())
