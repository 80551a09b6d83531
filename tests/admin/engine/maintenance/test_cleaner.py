"""Retention: how fast old runs are deleted beside everything else, and what is told of it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from tests.admin.kit.clock import Clock
from tests.admin.kit.services import World
from tickwheel_admin.engine.maintenance import cleaner as module
from tickwheel_admin.engine.maintenance.cleaner import Cleaner
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.runs.retention import (
    DUE_SOON_MS,
    QUIET_REST_FACTOR,
    REST_FACTOR,
    RUNS_PER_BATCH,
    remove_old_runs,
)
from tickwheel_admin.store.self_audit.periods import retained_from

DAY, MINUTE = 86_400_000, 60_000
OLD = RUNS_PER_BATCH * 5 // 2  # runs: two batches and a half
SLOW_SECONDS = 0.5


class SlowStore:
    """Each transaction that writes takes half a second of a clock that stands otherwise."""

    def __init__(self, world: World) -> None:
        self.database = world.database
        self.now = 1_000.0

    def time(self) -> float:
        return self.now

    async def run(self, *work: Any, **arguments: Any) -> Any:
        self.now += SLOW_SECONDS
        return await self.database.run(*work, **arguments)

    async def read(self, *work: Any, **arguments: Any) -> Any:
        return await self.database.read(*work, **arguments)


@pytest.fixture
def world(sqlite_url: str) -> Iterator[World]:
    clock = Clock()
    clock.advance((50 * DAY - clock()) / 1_000)
    world = World(sqlite_url, clock=clock)
    old = {"scheduled_at": DAY, "state": "succeeded"}
    world.add_runs(old | {"scheduled_at": DAY + number} for number in range(OLD))
    world.run(**old | {"scheduled_at": 49 * DAY})
    yield world
    world.close()


@pytest.fixture
def store(world: World, monkeypatch: pytest.MonkeyPatch) -> SlowStore:
    store = SlowStore(world)
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(get_running_loop=lambda: store))
    return store


def _start(conn: sa.Connection, run_ids: list[int]) -> None:
    run = tables.run
    conn.execute(sa.update(run).where(run.c.id.in_(run_ids)).values(state="running"))


def left(world: World) -> int:
    return world.rows(sa.select(sa.func.count()).select_from(tables.run))[0][0]


async def test_it_rests_after_each_batch_so_that_others_get_their_turn(
    world: World, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaner = Cleaner(store, retention_days=30)
    rests: list[float] = []
    monkeypatch.setattr(cleaner, "aim_at", lambda at: rests.append(at - store.now))
    due = {"state": "queued", "executor_id": await world.executor()}
    others = [world.run(**due, due_at=world.now + DUE_SOON_MS + soon) for soon in (0, 1)]
    for there in (OLD - RUNS_PER_BATCH, OLD - 2 * RUNS_PER_BATCH, 0, 0):
        assert not await cleaner.run_once()
        assert left(world) == there + 1 + len(others)
        await world.database.run(_start, others[:1])  # what is due later makes no difference
    # Also after the last batch, for the logs of more may have been too long; then it is over.
    quiet = QUIET_REST_FACTOR * SLOW_SECONDS
    assert rests == [REST_FACTOR * SLOW_SECONDS, quiet, quiet]


async def test_one_line_of_the_log_tells_of_all_runs_of_a_minute(
    world: World, store: SlowStore
) -> None:
    cleaner = Cleaner(store, retention_days=30)
    with capture_logs() as logs:
        for _ in range(4):
            await cleaner.run_once()
    told = [line["runs"] for line in logs if line["event"] == "run.pruned"]
    assert told == [RUNS_PER_BATCH, OLD - RUNS_PER_BATCH]

    world.add_runs({"scheduled_at": DAY + n, "state": "failed"} for n in range(OLD))
    with capture_logs() as logs:
        await cleaner.run_once()
        store.now += cleaner.interval_seconds
        await cleaner.run_once()
    told = [line["runs"] for line in logs if line["event"] == "run.pruned"]
    assert told == [2 * RUNS_PER_BATCH]


async def test_a_long_retention_holds_up_nothing_else(
    world: World, store: SlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaner = Cleaner(store, retention_days=30)
    others: list[float] = []

    async def remove(*_: object) -> bool:
        others.append(store.now)
        return True

    monkeypatch.setattr(cleaner, "_remove_others", remove)
    assert not await cleaner.run_once()  # nothing follows at once while runs are deleted
    assert not await cleaner.run_once()
    assert len(others) == 1
    store.now += cleaner.interval_seconds
    assert not await cleaner.run_once()
    assert len(others) == 2
    assert await cleaner.run_once()  # no old runs are left
    assert len(others) == 3


async def test_since_when_runs_are_kept_is_written_once_a_minute(world: World) -> None:
    """And never too early: the audit would call runs missing that were deleted."""

    async def remove(before: int) -> int:
        age = world.now - before
        assert await world.database.run(remove_old_runs, older_than_ms=age, limit=10)
        return await world.database.read(retained_from)

    kept_from = await remove(2 * DAY + 1)
    assert kept_from == 2 * DAY + MINUTE
    assert await remove(2 * DAY + MINUTE) == kept_from
    assert await remove(2 * DAY + MINUTE + 1) == kept_from + MINUTE
