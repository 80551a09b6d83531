"""The parts of delays are what the engine did: who held the slot, the lane, the pool."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.messages import accepted, result
from tests.admin.kit.rows import add_job, add_pool, ask, change, get_run
from tests.admin.kit.services import ADMIN, actor_with
from tickwheel_admin.domain.delays.history import DelayKind
from tickwheel_admin.domain.errors import InvalidInput, NotFound, Unavailable
from tickwheel_admin.domain.pools.pool import PoolShare
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.users.user import Role
from tickwheel_admin.services.delays import process, reading
from tickwheel_admin.services.delays import service as delay_service
from tickwheel_admin.services.delays.process import DelayProcesses
from tickwheel_admin.services.delays.reading import ReadLimits
from tickwheel_admin.services.delays.service import Delays, RunDelay
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.executors.service import Executors
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.database.ids import Ids
from tickwheel_shared.protocol import Outcome, RunRequest

pytestmark = pytest.mark.turned_clock

SERIAL = BlockingPolicy(strategy=Blocking.SERIAL)


@pytest.fixture
async def delays(database: Database) -> AsyncIterator[Delays]:
    found = Delays(database, processes=DelayProcesses())
    yield found
    found.close()


class Stage:
    """An executor with one node, whose attempts end when the test says so."""

    def __init__(self, admin: Admin, node: FakeSession, clock: Clock, delays: Delays) -> None:
        self.database, self.executor_id = admin.database, node.executor_id
        self._admin, self._node, self._clock, self._delays = admin, node, clock, delays
        self._live: dict[int, tuple[RunRequest, int]] = {}

    async def job(self, **config: Any) -> int:
        return await add_job(self.database, executor_id=self.executor_id, **config)

    async def ask(self, job_id: int, **changes: Any) -> int:
        """A run that is due now."""
        return await ask(self.database, job_id, **{"scheduled_at": self._clock.now} | changes)

    async def passes(self, seconds: float) -> None:
        """Nothing but time."""
        self._clock.advance(seconds)

    async def claims(self) -> list[int]:
        """The engine claims, and the node accepts at once."""
        requests = await self._admin.dispatch_all(self._node)
        for request in requests:
            self._live[request.run] = request, self._clock.now
            await self._admin.say(self._node, accepted(request))
        return [request.run for request in requests]

    async def ends(self, run_id: int, **how: Any) -> list[int]:
        """A run ends; what follows is claimed."""
        request, since = self._live.pop(run_id)
        lasted = self._clock.now - since
        await self._admin.say(self._node, result(request, duration_ms=lasted, **how))
        return await self.claims()

    async def told(self, run_id: int) -> dict[str, tuple[int, dict[int | None, int]]]:
        """By kind: ms, and the ms of each cause. They add up to the delay."""
        found = await self.delay(run_id)
        assert sum(part.ms for part in found.parts) == found.ms
        return {
            part.kind.value: (part.ms, {cause.run_id: cause.ms for cause in part.causes})
            for part in found.parts
        }

    async def delay(self, run_id: int) -> RunDelay:
        return await self._delays.of_run(ADMIN, run_id)


@pytest.fixture
async def stage(admin: Admin, clock: Clock, delays: Delays) -> Stage:
    executor = await _executor(admin.database)
    node = await admin.add_node(executor, slots=2)
    await change(admin.database, tables.node, node.node_id, lease_expires_at=NOW * 2)
    return Stage(admin, node, clock, delays)


async def _executor(database: Database) -> int:
    executors = Executors(database, Ids(database), Events())
    return (await executors.create(ADMIN, name="billing", description="")).id


async def test_who_holds_the_slots_is_charged(stage: Stage) -> None:
    first, second, third = [await stage.ask(await stage.job()) for _ in range(3)]
    assert await stage.claims() == [first, second]
    assert await stage.told(third) == {}
    await stage.passes(4)
    assert await stage.told(third) == {"slot": (4_000, {first: 2_000, second: 2_000})}
    assert await stage.ends(first) == [third]
    await stage.passes(60)
    found = await stage.delay(third)
    assert (found.ms, found.is_measured, found.unknown_before) == (4_000, True, None)
    assert await stage.told(third) == {"slot": (4_000, {first: 2_000, second: 2_000})}
    assert await stage.told(first) == {}


async def test_who_is_live_in_the_lane_is_charged(stage: Stage) -> None:
    job_id = await stage.job(blocking=SERIAL)
    first = await stage.ask(job_id)
    assert await stage.claims() == [first]
    await stage.passes(2)
    second = await stage.ask(job_id)
    await stage.passes(1)
    third = await stage.ask(job_id)
    assert await stage.claims() == []
    await stage.passes(3)
    assert await stage.ends(first) == [second]
    await stage.passes(5)
    assert await stage.ends(second) == [third]
    assert await stage.told(second) == {"blocked": (4_000, {first: 4_000})}
    assert await stage.told(third) == {"blocked": (8_000, {second: 5_000, first: 3_000})}


async def test_who_holds_the_slots_of_a_pool_is_charged(stage: Stage) -> None:
    pool_id = await add_pool(stage.database, 1)
    share = PoolShare(name="any", pool_id=pool_id)
    first, second = [await stage.ask(await stage.job(pool=share)) for _ in range(2)]
    assert await stage.claims() == [first]
    await stage.passes(7)
    assert await stage.ends(first) == [second]
    assert await stage.told(second) == {"pool": (7_000, {first: 7_000})}


async def test_a_retry_holds_its_slot_by_each_of_its_tries(stage: Stage) -> None:
    """And the delay of a run that is tried again is that of its first try."""
    other = await stage.ask(await stage.job())
    again = await stage.ask(await stage.job(retry=RetryPolicy(retries=1, delay_ms=0)))
    assert await stage.claims() == [other, again]
    late = await stage.ask(await stage.job(retry=RetryPolicy(retries=1, delay_ms=0)))
    await stage.passes(2)
    claimed = await stage.ends(again, outcome=Outcome.FAILED)
    assert len(claimed) == 1
    await stage.passes(1)
    await stage.ends(claimed[0])
    await stage.passes(1)
    told = await stage.told(late)
    assert sum(told["slot"][1].values()) == told["slot"][0]
    assert told["slot"][1][again] == told["slot"][0] // 2
    before = await stage.told(late)
    if (await get_run(stage.database, late)).state == "running":
        await stage.ends(late, outcome=Outcome.FAILED)
        await stage.passes(1)
        assert await stage.told(late) == before


async def test_without_a_node_nobody_is_charged(stage: Stage) -> None:
    run_id = await stage.ask(await stage.job(handler="unknown"))
    await stage.claims()
    await stage.passes(30)
    assert await stage.told(run_id) == {"no_node": (30_000, {})}


async def test_what_is_no_delay_is_not_told_as_one(stage: Stage) -> None:
    job_id = await stage.job()
    ahead = await stage.ask(job_id, scheduled_at=NOW + 60_000)
    assert await stage.told(ahead) == {}
    fill = await stage.ask(job_id, origin=Origin.BACKFILL)
    await stage.passes(5)
    found = await stage.delay(fill)
    assert (found.is_measured, found.ms, found.parts) == (False, 0, ())
    with pytest.raises(NotFound):
        await stage.delay(404)


async def test_who_may_not_see_a_job_is_not_told_of_it(
    stage: Stage, admin: Admin, delays: Delays
) -> None:
    """Pools of the installation are shared with executors that the reader may not see."""
    pool_id = await add_pool(stage.database, 1)
    share = PoolShare(name="any", pool_id=pool_id)
    elsewhere = await admin.add_node(stage.executor_id + 1)
    theirs = await add_job(stage.database, executor_id=elsewhere.executor_id, pool=share)
    await change(stage.database, tables.job, theirs, pool_id=pool_id)
    first = await stage.ask(theirs)
    await admin.dispatch_all(elsewhere)
    mine = await stage.ask(await stage.job(pool=share))
    await stage.passes(3)
    assert await stage.told(mine) == {"pool": (3_000, {first: 3_000})}
    bob = actor_with(Role.VIEWER, stage.executor_id)
    [part] = (await delays.of_run(bob, mine)).parts
    [cause] = part.causes
    assert (cause.run_id, cause.job_id, cause.job_name, cause.ms) == (None, None, None, 3_000)
    found = await delays.matrix(bob, stage.executor_id, from_at=None, until_at=None)
    assert [(cause.job_id, cause.name) for cause in found.causes] == [(None, None)]
    with pytest.raises(NotFound):
        await delays.of_run(bob, first)
    with pytest.raises(NotFound):
        await delays.matrix(bob, stage.executor_id + 1, from_at=None, until_at=None)


async def a_morning(stage: Stage) -> list[int]:
    """Two jobs that hold both slots for a minute, and two that wait for them."""
    jobs = [await stage.job(name=name) for name in ("etl", "export", "mail", "report")]
    runs = [await stage.ask(job_id) for job_id in jobs]
    await stage.claims()
    await stage.passes(60)
    await stage.ends(runs[0])
    await stage.ends(runs[1])
    await stage.passes(10)
    return jobs


async def test_the_matrix_says_who_was_delayed_and_who_caused_it(
    stage: Stage, delays: Delays
) -> None:
    etl, export, mail, report = await a_morning(stage)
    found = await delays.matrix(ADMIN, stage.executor_id, from_at=None, until_at=None)
    assert [each and each.name for each in found.rows] == ["mail", "report"]
    assert [each.job_id for each in found.rows if each] == [mail, report]
    assert [(each.job_id, each.name) for each in found.causes] == [(etl, "etl"), (export, "export")]
    assert [row.caused_by for row in found.matrix.rows] == [(30_000, 30_000)] * 2
    assert [row.uncharged for row in found.matrix.rows] == [0, 0]
    assert found.matrix.kinds == {DelayKind.SLOT: 120_000}
    assert (found.matrix.runs, found.cut_at, found.executor_name) == (2, None, "billing")


async def test_only_the_hours_asked_for_count(stage: Stage, delays: Delays) -> None:
    await a_morning(stage)
    found = await delays.matrix(
        ADMIN, stage.executor_id, from_at=NOW + 20_000, until_at=NOW + 30_000
    )
    assert found.matrix.kinds == {DelayKind.SLOT: 20_000}
    for times in ({"from_at": NOW + 10**9}, {"from_at": NOW - 49 * 3_600_000}):
        with pytest.raises(InvalidInput):
            await delays.matrix(ADMIN, stage.executor_id, until_at=None, **times)


async def test_pages_of_any_size_come_to_the_same(
    stage: Stage, delays: Delays, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_morning(stage)
    whole = await delays.matrix(ADMIN, stage.executor_id, from_at=None, until_at=None)
    monkeypatch.setattr(reading, "ENTRIES_PER_PAGE", 1)
    paged = await delays.matrix(ADMIN, stage.executor_id, from_at=None, until_at=None)
    assert paged.matrix == whole.matrix


async def test_of_too_many_runs_the_last_hours_are_told(
    stage: Stage, delays: Delays, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_morning(stage)
    late = await stage.ask(await stage.job(name="late"))
    monkeypatch.setattr(reading, "ENTRIES_PER_PAGE", 1)
    limits = ReadLimits(runs=1, entries=100)
    monkeypatch.setattr(delay_service, "OF_MATRIX", limits)
    monkeypatch.setattr(delay_service, "OF_RUN", limits)
    await stage.passes(5)
    found = await delays.matrix(ADMIN, stage.executor_id, from_at=None, until_at=None)
    scheduled_at = (await get_run(stage.database, late)).scheduled_at
    assert found.cut_at == scheduled_at + 1
    assert found.matrix.runs == 1
    one = await stage.delay(late)
    assert one.unknown_before == scheduled_at + 1
    assert sum(part.ms for part in one.parts) == one.ms == 5_000  # live runs are always known


async def test_a_process_that_fails_or_takes_too_long_is_told_of(
    stage: Stage, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_morning(stage)
    slow = Delays(database, processes=DelayProcesses(seconds=0.01))
    with pytest.raises(Unavailable) as refused:
        await slow.matrix(ADMIN, stage.executor_id, from_at=None, until_at=None)
    assert refused.value.code == "delays.too_long"
    monkeypatch.setattr(process, "_MODULE", "tickwheel_admin.no_such_module")
    broken = Delays(database, processes=DelayProcesses())
    with structlog.testing.capture_logs() as logged, pytest.raises(Unavailable):
        await broken.matrix(ADMIN, stage.executor_id, from_at=None, until_at=None)
    [line] = [each for each in logged if each["event"] == "delays.failed"]
    assert "no_such_module" in line["problem"]
