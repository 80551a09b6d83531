"""The page of an admin: what it counted, what it reads, and how many series there can be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client.openmetrics import parser as open_metrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job, now
from tests.admin.kit.services import ADMIN, FAR, JOB, World
from tests.support.databases import sqlite_with_tables
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.services.metrics import definitions
from tickwheel_admin.services.metrics.exposition import OPEN_METRICS, TEXT, MetricsPage
from tickwheel_admin.services.metrics.figures import AdminFigures, LoopFigures
from tickwheel_admin.services.metrics.meter import Meter
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database, DatabaseUnavailable
from tickwheel_admin.store.overview.metric_figures import MAX_EXECUTORS
from tickwheel_shared.protocol import Accepted, Outcome, Result

HERE = AdminFigures(
    version="1.2",
    name="a",
    database="sqlite",
    loops=[LoopFigures(name="planner", age_seconds=3, interval_seconds=0.5, failing=True)],
    clock_offset_ms=-250,
)


def page_of(store: Any, meter: Meter | None = None, *, most: int = 100, **more: Any) -> MetricsPage:
    return MetricsPage(store, meter or Meter(), lambda: HERE, max_executors=most, **more)


async def samples_of(page: MetricsPage) -> list[Sample]:
    body, _ = await page.render()
    return [
        sample
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    ]


def values(samples: list[Sample], name: str, **labels: str) -> list[float]:
    """Values of the series with a name and at least these labels."""
    return [
        sample.value
        for sample in samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


@pytest.fixture
def metered(store_url: str) -> Any:
    meter = Meter()
    database = Database(store_url, threads=4, meter=meter)
    yield database, meter
    database.close_sync()


@pytest.mark.every_database
async def test_a_run_is_counted_from_its_plan_to_its_end(
    metered: tuple[Database, Meter],
) -> None:
    database, meter = metered
    admin = Admin(database)
    await admin.engine.membership.enter()
    node = await admin.add_node(1)
    every = FixedRateSpec(every_ms=3_600_000, anchor_at=0)
    await add_job(database, triggers=[(every, await now(database))], name="invoices")
    page = page_of(database, meter, jobs=[("executor-1", "invoices")])
    before = await samples_of(page)

    await admin.engine.planner.run_once()
    (request,) = await admin.dispatch(node)
    key = {"run": request.run, "attempt": request.attempt, "token": request.token}
    await admin.say(node, Accepted(**key))
    await admin.say(node, Result(**key, outcome=Outcome.SUCCEEDED, duration_ms=1_500))
    found = await samples_of(page)

    assert values(before, "tickwheel_fires_planned_total", executor="executor-1") == [0]
    assert values(found, "tickwheel_fires_planned_total", executor="executor-1") == [1]
    assert values(found, "tickwheel_runs_claimed_total", executor="executor-1") == [1]
    for name in ("tickwheel_runs_ended_total", "tickwheel_job_runs_ended_total"):
        assert values(found, name, executor="executor-1", outcome="succeeded") == [1]
        assert values(found, name, executor="executor-1", outcome="failed") == [0]
    assert values(found, "tickwheel_start_delay_seconds_count", executor="executor-1") == [1]
    assert values(found, "tickwheel_run_duration_seconds_count", executor="executor-1") == [1]
    (at,) = values(found, "tickwheel_job_last_success_timestamp_seconds", job_name="invoices")
    assert abs(at * 1000 - await now(database)) < 600_000
    for step in ("planning", "claiming", "recording"):
        assert values(found, "tickwheel_batch_size_count", step=step)[0] >= 1


async def test_figures_of_the_installation(world: World) -> None:
    busy = await world.executor("busy")
    await world.executor("idle")
    world.node(busy, slots=8, in_use=3)
    world.node(busy, slots=2, cordoned=True, in_use=1)
    world.node(busy, slots=2, draining=True, cordoned=True)
    world.node(busy, state="dead")
    at_once = world.now
    for seconds in (5, 40):
        at = at_once - 1000 * seconds
        waits = {"state": "queued", "due_at": at, "scheduled_at": at, "created_at": at}
        world.run(executor_id=busy, attempt=0, tries=0, **waits)
    alarm = {
        "rule_id": 1, "kind": "failed", "severity": "error", "told": "{}", "count": 1,
        "since": at_once, "last_at": at_once, "opened_at": at_once, "repeats": 0,
    }  # fmt: skip
    for number, closed in ((1, 0), (2, 0), (3, 3)):
        row = alarm | {"id": number, "subject": f"job:{number}", "closed_key": closed}
        world.change(sa.insert(tables.alarm).values(row))
    for number, (state, due) in enumerate(
        [("waiting", at_once - 9_000), ("waiting", at_once), ("dead", at_once), ("delivered", 1)]
    ):
        message = {
            "id": number, "channel_id": 1, "executor_id": 0, "message_id": str(number),
            "state": state, "items": 1, "due_at": due, "attempts": 0, "written_at": at_once,
        }  # fmt: skip
        world.change(sa.insert(tables.notification).values(message))
    for number, closed_at in ((1, None), (2, at_once)):
        difference = {
            "hour_at": 3_600_000, "trigger_id": number, "at": 1, "what": "missing", "job_id": 1,
            "executor_id": busy, "found_at": 1, "closed_at": closed_at,
        }  # fmt: skip
        world.change(sa.insert(tables.self_audit_difference).values(difference))
    counts = dict.fromkeys(
        ("expected", "happened", "fires", "missing", "doubled", "late", "unexplained", "triggers"),
        0,
    )
    hour = counts | {
        "executor_id": 0,
        "explained": "{}",
        "absent": "{}",
        "audited": 0,
        "audited_at": 1,
    }
    for hour_at in (3_600_000, 7_200_000):
        world.change(sa.insert(tables.self_audit_hour).values(hour | {"hour_at": hour_at}))

    found = await samples_of(page_of(world.database))
    all_of = "tickwheel_installation_"

    assert values(found, all_of + "queued_runs", executor="busy") == [2]
    assert values(found, all_of + "queued_runs", executor="idle") == [0]
    assert 40 <= values(found, all_of + "queue_age_seconds", executor="busy")[0] < 100
    for state in ("ready", "cordoned", "draining"):
        assert values(found, all_of + "nodes", executor="busy", state=state) == [1]
        assert values(found, all_of + "nodes", executor="idle", state=state) == [0]
    assert values(found, all_of + "slots", executor="busy") == [8]
    assert values(found, all_of + "slots_used", executor="busy") == [3]
    assert values(found, all_of + "open_alarms", severity="error") == [2]
    assert values(found, all_of + "open_alarms", severity="warning") == [0]
    assert values(found, all_of + "undelivered_messages", state="waiting") == [2]
    assert values(found, all_of + "undelivered_messages", state="dead") == [1]
    assert values(found, all_of + "undelivered_messages", state="delivered") == []
    assert 9 <= values(found, all_of + "message_age_seconds")[0] < 60
    assert values(found, all_of + "self_audit_differences", kind="missing") == [1]
    assert values(found, all_of + "self_audited_timestamp_seconds") == [10_800]
    assert values(found, "tickwheel_loop_failing", loop="planner") == [1]
    assert values(found, "tickwheel_clock_offset_seconds") == [-0.25]


@pytest.mark.parametrize("paused", [None, "executor", "everything"])
async def test_admins_and_overdue_triggers(world: World, paused: str | None) -> None:
    executor_id = await world.executor("billing")
    job = JOB | {"triggers": [{"kind": "fixed_rate", "every_seconds": 86_400}]}
    await world.jobs.create(ADMIN, executor_id, job)
    world.change(sa.update(tables.trigger).values(next_fire_at=world.now - 60_000))
    if paused == "executor":
        await world.executors.pause(ADMIN, executor_id)
    elif paused == "everything":
        await world.system.pause_all(ADMIN)
    row = {"url": "", "version": "", "started_at": 1, "status": "{}"}
    lately, long_ago = world.now - 3_000_000, world.now - 4_000_000
    leases = [(FAR, None), (FAR, None), (1, None), (1, lately), (1, long_ago)]
    for number, (lease, gone_at) in enumerate(leases):
        own = {"id": number, "name": f"a{number}", "lease_expires_at": lease, "gone_at": gone_at}
        world.change(sa.insert(tables.admin).values(row | own))

    found = await samples_of(page_of(world.database))

    # One whose lease is over is gone, whether or not anybody has noted it yet; for an hour.
    assert values(found, "tickwheel_installation_admins", state="up") == [2]
    assert values(found, "tickwheel_installation_admins", state="gone") == [2]
    overdue = values(found, "tickwheel_installation_overdue_triggers")
    assert overdue == [1 if paused is None else 0]


async def test_series_do_not_depend_on_jobs_nor_nodes_and_executors_are_bounded(
    tmp_path: Path,
) -> None:
    url = sqlite_with_tables(tmp_path / "x.db")
    database = Database(url, threads=2)
    page = page_of(database, most=20)
    few = len(await samples_of(page))
    with database.engine.begin() as conn:
        conn.exec_driver_sql(_numbers(1, 300) + _EXECUTORS)
        conn.exec_driver_sql(_numbers(1, 100_000) + _JOBS)
        conn.exec_driver_sql(_numbers(1, 1_000) + _NODES)
        conn.exec_driver_sql(_numbers(1, 5_000) + _RUNS)

    meter = Meter()
    full = await samples_of(page_of(database, meter, most=20))
    of_an_executor = [each for each in full if each.labels.get("executor") == "executor-1"]

    assert {each.labels["executor"] for each in full if "executor" in each.labels} == {
        *(f"executor-{number}" for number in range(1, 21)),
        definitions.OTHERS,
    }
    assert len(full) == few + 20 * len(of_an_executor)
    nodes = "tickwheel_installation_nodes"
    assert sum(values(full, nodes)) == 1_000
    assert values(full, nodes, executor=definitions.OTHERS, state="ready") == [1_000 - 79]
    assert sum(values(full, "tickwheel_installation_queued_runs")) == 5_000
    assert len(await samples_of(page_of(database, most=MAX_EXECUTORS))) > len(full)
    await database.close()


def _numbers(first: int, last: int) -> str:
    return (
        f"WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL"
        f" SELECT n + 1 FROM numbers WHERE n < {last}) "
    )


_EXECUTORS = (
    "INSERT INTO executor (id, name, description, token_hash, created_at, deleted_at)"
    " SELECT n, 'executor-' || n, '', n, n * 2, 0 FROM numbers"
)
_JOBS = (
    "INSERT INTO job (id, executor_id, name, handler, owner, tags, revision, paused, route_cursor,"
    " created_at, updated_at, deleted_at)"
    " SELECT n, n % 300 + 1, 'job-' || n, 'h', '', '', 1, 0, 0, 1, 1, 0 FROM numbers"
)
_NODES = (
    "INSERT INTO node (id, executor_id, node_key, name, state, draining, cordoned, drain_wanted,"
    " slots, in_use, weight, handlers, unstoppable, labels, sdk, address, connected_at,"
    " lease_expires_at, full_lease_at)"
    " SELECT n, n % 300 + 1, n, 'node-' || n, 'live', 0, 0, 0, 4, 1, 1, '[]', '[]', '{}', '', '',"
    " 1, 4000000000000, 4000000000000 FROM numbers"
)
_RUNS = (
    "INSERT INTO run (id, executor_id, job_id, job_revision, origin, scheduled_at, shard_index,"
    " shard_total, priority, created_at, state, due_at, attempt, tries, log_lines)"
    " SELECT n, n % 300 + 1, n, 1, 'manual', 1, 0, 1, 5, 1, 'queued', 1, 0, 0, 0 FROM numbers"
)


class CountingStore:
    """Counts reads, and lets a test hold them up or fail them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.reads = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_up = True

    async def read(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.reads += 1
        await self.may_answer.wait()
        if not self.is_up:
            raise DatabaseUnavailable("away")
        return await self._database.read(work, *args, **kwargs)


async def test_scrapes_at_once_read_the_database_once(database: Database, clock: Clock) -> None:
    store = CountingStore(database)
    page = page_of(store, clock=clock.monotonic)
    store.may_answer.clear()

    scrapes = [asyncio.create_task(page.render()) for _ in range(5)]
    scrapes.append(asyncio.create_task(page.render("application/openmetrics-text;version=1.0.0")))
    await asyncio.sleep(0)
    store.may_answer.set()
    pages = await asyncio.gather(*scrapes)

    assert store.reads == 1
    assert len(set(pages[:5])) == 1
    assert [media_type for _, media_type in pages] == [TEXT] * 5 + [OPEN_METRICS]
    assert pages[5][0].endswith(b"# EOF\n")

    clock.advance(4)
    await page.render()
    assert store.reads == 1
    clock.advance(2)
    await page.render()
    assert store.reads == 2


async def test_a_scraper_that_leaves_takes_the_page_from_nobody(database: Database) -> None:
    store = CountingStore(database)
    page = page_of(store)
    store.may_answer.clear()
    leaves, stays = (asyncio.create_task(page.render()) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    await asyncio.sleep(0)
    store.may_answer.set()

    assert (await stays)[1] == TEXT
    assert store.reads == 1


async def test_without_the_database_counters_stay_and_old_figures_are_not_told(
    world: World, clock: Clock
) -> None:
    await world.executor("billing")
    store = CountingStore(world.database)
    page = page_of(store, clock=clock.monotonic)
    before = await samples_of(page)
    store.is_up = False
    clock.advance(60)
    during = await samples_of(page)
    store.is_up = True
    after = await samples_of(page)

    up = "tickwheel_database_up"
    assert [values(each, up) for each in (before, during, after)] == [[1], [0], [1]]
    planned = "tickwheel_fires_planned_total"
    assert values(during, planned, executor="billing") == [0]
    assert not [each for each in during if each.name.startswith("tickwheel_installation_")]
    assert len(after) == len(before)


async def test_two_admins_in_one_process_have_pages_of_their_own(database: Database) -> None:
    first, second = Meter(), Meter()
    first.delivered("failed")
    pages = [page_of(database, meter) for meter in (first, second)]

    found = [await samples_of(page) for page in pages]

    failed = "tickwheel_delivery_attempts_total"
    assert [values(each, failed, outcome="failed") for each in found] == [[1], [0]]


async def test_every_definition_is_shown_and_nothing_else(world: World) -> None:
    await world.executor("billing")
    page = page_of(world.database, jobs=[("billing", "none")])
    body, _ = await page.render()
    shown = {
        family.name: family.type
        for family in text_string_to_metric_families(body.decode())
        if not family.name.startswith("process_")
    }
    defined = {
        metric.name.removesuffix("_total"): metric.kind.value for metric in definitions.METRICS
    }
    # Not before the first audit.
    defined.pop(definitions.AUDITED.name)
    # Only of an admin that has one.
    defined.pop(definitions.CERTIFICATE_EXPIRES.name)

    assert shown == defined
    body, _ = await page.render(OPEN_METRICS)
    families = open_metrics.text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]
    assert {each.name: each.type for each in families if each.name in shown} == defined


async def test_slots_of_pools_are_told_by_name(world: World) -> None:
    billing = await world.executor("billing")
    await world.pools.create(ADMIN, {"name": "own", "slots": 2, "executor": billing})
    shared = await world.pools.create(ADMIN, {"name": "warehouse", "slots": 3})
    use = {"run_id": 1, "pool_id": shared, "slots": 2, "since": 1}
    world.change(sa.insert(tables.pool_use).values(use))
    samples = await samples_of(page_of(world.database))
    name = "tickwheel_installation_pool_slots"
    assert values(samples, name, pool="billing/own") == [2]
    assert values(samples, name, pool="warehouse") == [3]
    assert values(samples, f"{name}_used", pool="warehouse") == [2]
