"""Executors, nodes and jobs with their triggers: few of them busy, most of them quiet."""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlalchemy as sa

from tests.bench.seed.writer import Writer, line
from tickwheel_admin.domain.input.job import config_to_json
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.domain.triggers.trigger_json import spec_to_json
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.triggers.planning import bucket_of

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
FAR = 4_000_000_000_000  # a lease that outlives every measurement
PEOPLE = 200
FIELDS = (
    "billing", "crm", "warehouse", "ml", "infra", "search", "orders", "risk", "payroll", "media",
)  # fmt: skip
VERBS = ("sync", "load", "compact", "export", "score", "clean", "mail", "check", "bill", "index")
THINGS = (
    "invoices", "customers", "events", "features", "certificates", "stock", "ledgers", "reports",
    "sessions", "images", "accounts", "tickets",
)  # fmt: skip
TAGS = ("critical", "nightly", "finance", "gpu", "external", "backup", "compliance", "report")

JOB_COLUMNS = {
    tables.job: (
        "id", "executor_id", "name", "handler", "owner", "tags", "revision", "paused",
        "route_cursor", "created_at", "updated_at", "deleted_at",
    ),
    tables.job_revision: ("job_id", "revision", "config", "created_at", "created_by"),
    tables.trigger: (
        "id", "job_id", "executor_id", "bucket", "spec", "paused", "state", "next_fire_at",
        "last_fire_at", "fires", "version", "created_at",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything."""

    jobs: int
    runs: int
    nodes: int
    executors: int
    audit: int
    now: int  # UTC epoch ms that counts as now
    days: int = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """What the ledger wants to know of job `n` (0-based; its id is n + 1)."""

    executor: array[int] = field(default_factory=lambda: array("q"))
    trigger: array[int] = field(default_factory=lambda: array("q"))  # id; 0: it has none
    usual_ms: array[int] = field(default_factory=lambda: array("q"))
    fails: array[float] = field(default_factory=lambda: array("d"))  # share of its runs
    shards: array[int] = field(default_factory=lambda: array("q"))  # 0: not sharded


def person(number: int) -> str:
    """The name of person `number`, 1-based; the first one may do everything."""
    return "admin" if number == 1 else f"person-{number:03}"


def write_executors(writer: Writer, sizes: Sizes) -> None:
    """As many as asked for, ids from 1."""
    columns = ["id", "name", "description", "token_hash", "created_at", "deleted_at"]
    writer.write_all(
        tables.executor,
        columns,
        (
            line(n, f"{FIELDS[n % len(FIELDS)]}-{n:03}", f"Service {n}", f"{n:064x}", 1, 0)
            for n in range(1, sizes.executors + 1)
        ),
    )


def write_nodes(writer: Writer, sizes: Sizes, in_use: dict[int, int]) -> None:
    """As many live nodes as asked for, by turns of the executors, and a few that are gone."""
    columns = [
        "id", "executor_id", "node_key", "name", "state", "draining", "cordoned", "drain_wanted",
        "slots", "in_use", "weight", "handlers", "unstoppable", "labels", "sdk", "address",
        "connected_at", "lease_expires_at", "full_lease_at", "ended_at",
    ]  # fmt: skip
    handlers = json.dumps(sorted(f"{thing}.{verb}" for thing in THINGS for verb in VERBS))

    def lines() -> Iterator[str]:
        for n in range(1, sizes.nodes + sizes.nodes // 10 + 1):
            live = n <= sizes.nodes
            until = FAR if live else sizes.now - n * 1_000
            used = in_use.get(n, 0)
            yield line(
                n, executor_of_node(n, sizes), f"{n:032x}", f"host-{n:04}",
                "live" if live else "dead", n % 97 == 0, n % 53 == 0, n % 97 == 0,
                max(20, used), used, 1, handlers, "[]", json.dumps({"zone": "eu"}),
                "python/0.1.0", f"10.2.{n // 250}.{n % 250}", sizes.now - n * MINUTE, until, until,
                None if live else until,
            )  # fmt: skip

    writer.write_all(tables.node, columns, lines())


def executor_of_node(node_id: int, sizes: Sizes) -> int:
    """Nodes belong to executors by turns."""
    return node_id % sizes.executors + 1


def write_jobs(writer: Writer, sizes: Sizes, chance: random.Random) -> Jobs:
    """Jobs with one revision and usually one trigger each; returns what their runs need."""
    jobs = Jobs()
    rows: dict[sa.Table, list[str]] = {table: [] for table in JOB_COLUMNS}
    for n in range(sizes.jobs):
        executor = int(sizes.executors * chance.random() ** 1.7) + 1
        config = _config(n, chance)
        at = sizes.now - sizes.days * DAY - chance.randrange(300 * DAY)
        paused = chance.random() < 0.02
        deleted_at = at + DAY if chance.random() < 0.005 else 0
        tags = ",".join(config.tags)
        named = line(n + 1, executor, config.name, config.handler, config.owner, tags)
        rows[tables.job].append(f"{named}\t{line(1, paused, 0, at, at, deleted_at)}")
        rows[tables.job_revision].append(line(n + 1, 1, config_to_json(config), at, config.owner))
        jobs.executor.append(executor)
        jobs.usual_ms.append(int(10 ** (1.5 + 4.3 * chance.random() ** 2)))
        jobs.fails.append(0.35 if n % 400 == 7 else 0.02 * (n % 5))
        jobs.shards.append(8 if n % 500 == 11 else 0)
        if not config.triggers or deleted_at:
            jobs.trigger.append(0)
            continue
        (spec,) = config.triggers
        trigger = len(rows[tables.trigger]) + 1
        jobs.trigger.append(trigger)
        fires_at = None if paused else next_fire(spec, sizes.now, chance)
        begins = line(trigger, n + 1, executor, bucket_of(trigger), spec_to_json(spec), False)
        ends = line("active", fires_at, sizes.now - HOUR, n % 1000, 1, at)
        rows[tables.trigger].append(f"{begins}\t{ends}")
    for table, columns in JOB_COLUMNS.items():
        writer.write_all(table, columns, rows[table])
    return jobs


def _config(n: int, chance: random.Random) -> JobConfig:
    thing, verb = THINGS[chance.randrange(12)], VERBS[chance.randrange(10)]
    spec = _spec(chance)
    return JobConfig(
        name=f"{verb}-{thing}-{n:06}",
        handler=f"{thing}.{verb}",
        description=f"{verb.capitalize()}s {thing} of customer {n}.",
        owner=person(2 + int((PEOPLE - 1) * chance.random() ** 2)),
        tags=tuple(sorted({TAGS[chance.randrange(8)] for _ in range(chance.randrange(3))})),
        parameters=json.dumps({"customer": n, "dry_run": False}),
        triggers=() if spec is None else (spec,),
    )


def _spec(chance: random.Random) -> CronSpec | FixedRateSpec | None:
    """A tenth have none; of the others most are daily."""
    roll, minute, hour = chance.random(), chance.randrange(60), chance.randrange(24)
    if roll < 0.10:
        return None
    if roll < 0.105:
        return CronSpec(expression="* * * * *")
    if roll < 0.12:
        return FixedRateSpec(every_ms=5 * MINUTE)
    if roll < 0.15:
        return CronSpec(expression="*/15 * * * *")
    if roll < 0.25:
        return CronSpec(expression=f"{minute} * * * *")
    expression = f"{minute} {hour} * * {'*' if roll < 0.8 else chance.randrange(7)}"
    return CronSpec(expression=expression)


def next_fire(spec: CronSpec | FixedRateSpec, now: int, chance: random.Random) -> int:
    """The next instant of one of those schedules, in UTC."""
    if isinstance(spec, FixedRateSpec):
        return now + chance.randrange(spec.every_ms or 1)
    minute, hour, *_rest, weekday = (spec.expression or "").split()
    if minute == "*":
        return now - now % MINUTE + MINUTE
    if minute.startswith("*/"):
        step = int(minute[2:]) * MINUTE
        return now - now % step + step
    if hour == "*":
        return _next_in(now, HOUR, int(minute) * MINUTE)
    at = _next_in(now, DAY, int(hour) * HOUR + int(minute) * MINUTE)
    if weekday != "*":
        at += (int(weekday) - (at // DAY + 4)) % 7 * DAY  # 1970 began with a Thursday
    return at


def _next_in(now: int, period: int, offset: int) -> int:
    return now + 1 + (offset - now - 1) % period
