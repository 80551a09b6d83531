"""Very much was missed: it is made up for at a pace that leaves room for what is on time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.rows import add_job, add_run, now, runs_of
from tickwheel_admin.domain.runs.run import Origin
from tickwheel_admin.domain.triggers.kinds.fixed_rate import FixedRateSpec
from tickwheel_admin.engine import catch_up_pace
from tickwheel_admin.engine.catch_up_pace import (
    BURST,
    LATE_MS,
    LEAST_PER_SECOND,
    MOST_PER_SECOND,
    CatchUpPace,
)
from tickwheel_admin.store.database.database import Database

LONG_AGO = 1_700_000_000_000


def planned(
    pace: CatchUpPace,
    seconds: range,
    *,
    batch: int = 1,
    late_ms: Callable[[int], int | None] = lambda second: None,
) -> int:
    """Runs that a planner plans which looks a hundred times a second."""
    found = 0
    for look in range(seconds.start * 100, seconds.stop * 100):
        now = look / 100
        if (late := late_ms(look // 100)) is not None:
            pace.claimed_late(late, now)
        while pace.may_plan(now):
            pace.planned(batch)
            found += batch
    return found


@pytest.mark.parametrize("batch", [1, 500, 20_000])
def test_a_burst_and_then_so_many_a_second(batch: int) -> None:
    found = planned(CatchUpPace(), range(20), batch=batch)
    assert abs(found - BURST - 20 * MOST_PER_SECOND) <= batch + 100


def test_rest_earns_no_more_than_a_burst() -> None:
    pace = CatchUpPace()
    assert pace.may_plan(0)
    pace.planned(10 * BURST)
    assert not pace.may_plan(1)
    assert pace.may_plan(pace.next_at)
    assert pace.may_plan(3_600)
    pace.planned(BURST)
    assert not pace.may_plan(3_600)


@pytest.mark.parametrize("late_ms", [LATE_MS, None], ids=["on time", "nothing is claimed"])
def test_it_slows_down_while_fires_on_time_are_late_and_recovers(late_ms: int | None) -> None:
    pace = CatchUpPace()
    planned(pace, range(10))
    planned(pace, range(10, 20), late_ms=lambda second: LATE_MS + 1)
    slow = planned(pace, range(20, 30), late_ms=lambda second: LATE_MS + 1)
    assert slow == pytest.approx(10 * LEAST_PER_SECOND, abs=50)
    planned(pace, range(30, 60), late_ms=lambda second: late_ms)
    assert planned(pace, range(60, 70)) == pytest.approx(10 * MOST_PER_SECOND, abs=50)


async def test_many_fires_are_planned_a_few_at_a_time(database: Database) -> None:
    """Those that are due meanwhile wait for a pass, and for as long as it takes."""
    planner = Admin(database).engine.planner
    usual = planner.interval_seconds
    passes = [(0, 100.0), (50, 100.5), (250, 101.0), (500, 101.5), (5_000, 101.8), (0, 102.0)]
    pauses = [planner._pause(fires, at) for fires, at in passes]
    assert pauses == pytest.approx([usual, usual, 0.4, 0.2, 0.2, usual])


async def test_the_planner_comes_back_for_what_its_pace_left(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = Admin(database)
    await admin.engine.membership.enter()
    planner = admin.engine.planner
    spec = FixedRateSpec(every_ms=86_400_000, anchor_at=LONG_AGO)
    job_id = await add_job(database, triggers=[(spec, LONG_AGO)])
    aims: list[float | None] = []
    monkeypatch.setattr(planner, "aim_at", aims.append)
    at = asyncio.get_running_loop().time()
    planner._pace.may_plan(at)
    planner._pace.planned(BURST + 3_600 * MOST_PER_SECOND)  # others, a moment ago

    assert not await planner.run_once()
    assert not await runs_of(database, job_id)
    assert aims == [pytest.approx(at + 3_600, abs=1)]

    monkeypatch.setattr(planner, "_pace", CatchUpPace())
    while await planner.run_once():
        pass
    assert await runs_of(database, job_id)


@pytest.mark.turned_clock
async def test_claims_tell_how_late_fires_on_time_are(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missed fire that is made up for is not on time, and neither is what somebody asked for."""
    told: list[int] = []
    monkeypatch.setattr(CatchUpPace, "claimed_late", lambda pace, late, at: told.append(late))
    admin = Admin(database)
    node = await admin.add_node(1)
    job_id = await add_job(database)
    due_at = await now(database)
    for origin, late in ((Origin.MISFIRE, 900), (Origin.API, 800), (Origin.RETRY, 700)):
        await add_run(database, job_id, origin=origin, due_at=due_at - late)
    assert len(await admin.dispatch_all(node)) == 3
    assert not told

    for late in (40, 650, 7):
        await add_run(database, job_id, origin=Origin.SCHEDULE, due_at=due_at - late)
    assert len(await admin.dispatch_all(node)) == 3
    assert max(told) == 650
    assert catch_up_pace.LATE_MS < 650
