"""Forecasts held against what the engine then did, in turned time."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from tests.admin.kit.clock import NOW, Clock
from tests.admin.kit.engine import Admin
from tests.admin.kit.recording import Recording, add_history
from tests.admin.kit.rows import add_job, all_runs
from tests.admin.kit.workflows import add_workflow, step
from tests.support.nightly import IS_NIGHT
from tickwheel_admin.domain.forecast import claims
from tickwheel_admin.domain.forecast.journal import Journal
from tickwheel_admin.domain.forecast.simulation import Forecast, Simulation
from tickwheel_admin.domain.forecast.situation import ForecastSituation
from tickwheel_admin.domain.forecast.tally import quantile
from tickwheel_admin.domain.jobs.children import ChildLink
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.domain.triggers.kinds.cron import CronSpec
from tickwheel_admin.domain.triggers.kinds.fixed_delay import FixedDelaySpec
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.workflows.graph import ForEach, SubWorkflow
from tickwheel_admin.engine.dispatcher import loop as dispatcher
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.forecast.situation import read_forecast_jobs, read_surroundings
from tickwheel_admin.store.jobs.configs import JobConfigs, read_configs
from tickwheel_shared.protocol import Outcome

pytestmark = pytest.mark.turned_clock

HOUR_MS = 3_600_000
START = NOW - NOW % HOUR_MS - 1_000  # a second before the hour


async def situation_of(database: Database) -> ForecastSituation:
    """As the product reads it."""
    around = await database.read(read_surroundings, [1], JobConfigs())
    jobs = await database.read(
        lambda conn: read_forecast_jobs(conn, [1], after=0, limit=1_000, configs=JobConfigs())
    )
    return ForecastSituation(
        now=around.now,
        jobs=tuple(jobs),
        nodes=around.nodes,
        pools=around.pools,
        paused=around.paused,
        open_runs=around.open_runs,
    )


def of(spec: TriggerSpec) -> list[tuple[TriggerSpec, int]]:
    first = parse(spec, saved_at=START).next_after(START)
    assert first is not None
    return [(spec, first)]


def delays(runs: list[Run]) -> list[int]:
    return sorted(
        run.started_at - run.first_due_at
        for run in runs
        if run.started_at is not None and run.scheduled_at >= START
    )


def by_job(forecast: Forecast) -> Mapping[int, tuple[int, int, int | None, int | None]]:
    return {
        each.job_id: (each.started, each.skipped, each.delay_p50_ms, each.delay_p95_ms)
        for each in forecast.jobs
    }


def recorded_by_job(runs: list[Run]) -> Mapping[int, tuple[int, int, int | None, int | None]]:
    found = {}
    for job_id in {run.job_id for run in runs}:
        mine = [run for run in runs if run.job_id == job_id and run.scheduled_at >= START]
        late = delays(mine)
        skipped = sum(run.state is RunState.SKIPPED for run in mine)
        found[job_id] = (len(late), skipped, quantile(late, 0.5), quantile(late, 0.95))
    return found


async def test_a_forecast_foretells_each_start_when_runs_take_what_they_always_take(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crowded minutes, priorities, blocking, a start-by limit, children, fixed delays.

    No two jobs fire at one instant, for their order is anybody's, and which claim is a tenth one
    depends on how often an admin looks.
    """
    for module in (dispatcher, claims):
        monkeypatch.setattr(module, "OLDEST_FIRST_EVERY", 10**9)
    clock.now = START
    admin = Admin(database)
    node = await admin.add_node(1, slots=3)
    source = random.Random(24)
    lasting: dict[int, int] = {}
    children = [await add_job(database) for _ in range(2)]
    jobs = list(children)
    for number in range(24):
        minute = source.choice(["0", "0", "*/10", "5", "7,9", "3-6"])
        jobs.append(
            await add_job(
                database,
                triggers=of(
                    CronSpec(expression=f"{number + 7} {minute} * * * ?", dialect="quartz")
                ),
                priority=source.choice([2, 5, 5, 8]),
                blocking=BlockingPolicy(
                    strategy=list(Blocking)[number % 4], concurrency=1 + number % 3 // 2
                ),
                start_within_ms=source.choice([None, None, 240_000]),
                children=(ChildLink(job_id=source.choice(children)),) if number % 5 == 0 else (),
            )
        )
    jobs.append(await add_job(database, triggers=of(FixedDelaySpec(every_ms=120_000))))
    for number, job_id in enumerate(jobs):
        # Odd lengths, so that no two runs end at one millisecond.
        lasting[job_id] = source.choice([20_000, 50_000, 110_000]) + 7 * number + 1
        await add_history(database, job_id, [lasting[job_id]] * 3, now=START - HOUR_MS)

    expected = Simulation(await situation_of(database), end=START + 2 * HOUR_MS).run()
    await Recording(admin, node, clock, lasts_ms=lasting.__getitem__).until(START + 2 * HOUR_MS)

    runs = [run for run in await all_runs(database) if run.scheduled_at >= START]
    assert len(runs) > 150
    recorded = recorded_by_job(runs)
    assert by_job(expected) == recorded
    reasons = {run.reason for run in runs if run.state is RunState.SKIPPED}
    assert reasons == {"discarded", "covered", "expired"}, "not all of it happened"


async def test_steps_of_workflows_are_foretold_start_by_start(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forks and joins, lists, a condition that the last runs tell of, a failure that is handled, a
    workflow within another; looked at while they run. Jobs crowd the slots meanwhile.
    """
    for module in (dispatcher, claims):
        monkeypatch.setattr(module, "OLDEST_FIRST_EVERY", 10**9)
    clock.now = START
    admin = Admin(database)
    node = await admin.add_node(1, slots=3)
    inner = await add_workflow(
        database,
        step("x"),
        step("each", "x", for_each=ForEach(items="[1, 2, 3, 4, 5]", max_parallel=2)),
        executor_id=1,
    )
    steps = (
        step("load"),
        step("left", "load"),
        step("right", "load"),
        step("rare", "load", when='steps.load.state == "failed"'),
        step("breaks", "left"),
        step("mend", "breaks:failed"),
        step("never", "breaks"),
        step("inner", "right", "rare:ended", body=SubWorkflow(job_id=inner)),
        step("last", "inner", "mend"),
    )
    hourly = of(CronSpec(expression="11 5,35 * * * ?", dialect="quartz"))
    outer = await add_workflow(database, *steps, executor_id=1, triggers=hourly)
    jobs = [
        await add_job(
            database,
            triggers=of(CronSpec(expression=f"{number + 17} */8 * * * ?", dialect="quartz")),
            priority=3 + number % 4,
        )
        for number in range(4)
    ]
    hidden = await inline_jobs(database, outer) | await inline_jobs(database, inner)
    lasting = {
        job_id: 60_000 + 13_000 * number + 7 * number + 1
        for number, job_id in enumerate([*jobs, *hidden.values()])
    }

    def ends_as(job_id: int) -> Outcome:
        return Outcome.FAILED if job_id == hidden["breaks"] else Outcome.SUCCEEDED

    recording = Recording(admin, node, clock, lasts_ms=lasting.__getitem__, ends_as=ends_as)
    looked_at = START + HOUR_MS + 8 * 60_000  # while a workflow runs; one has shown how it goes
    await recording.until(looked_at)
    found, end = await situation_of(database), looked_at + 2 * HOUR_MS
    assert sum(bool(run.steps) for run in found.open_runs) >= 1
    journal = Journal()
    Simulation(found, end=end, journal=journal).run()
    await recording.until(end)

    expected = {
        (run.job_id, run.start_at, run.end_at)
        for run in journal.runs.values()
        if run.start_at is not None
    }
    recorded = {
        (run.job_id, run.started_at, run.ended_at if (run.ended_at or end) < end else None)
        for run in await all_runs(database)
        if run.started_at is not None and (run.ended_at or end) > looked_at
    }
    assert recorded == expected
    ran = {job_id for job_id, _, _ in recorded}
    assert ran >= {hidden["mend"], hidden["last"], hidden["each"], inner, outer, *jobs}
    assert not ran & {hidden["rare"], hidden["never"]}


async def inline_jobs(database: Database, job_id: int) -> dict[str, int]:
    """The hidden jobs of a workflow by their steps."""
    configs = await database.read(read_configs, [(job_id, 1)])
    graph = configs[job_id, 1].workflow
    assert graph is not None
    return {each.step: each.job_id for each in graph.inline}


@pytest.mark.slow
@pytest.mark.skipif(not IS_NIGHT, reason="not possible here: records a week, by night")
async def test_the_delays_of_a_week_are_foretold_within_a_fifth(
    database: Database, clock: Clock
) -> None:
    """200 jobs on 8 slots; each run takes a time of its own, which the forecast has not seen."""
    clock.now = START
    admin = Admin(database)
    node = await admin.add_node(1, slots=8)
    source = random.Random(24)
    usual: dict[int, int] = {}
    for number in range(200):
        minute = source.choice([0, 0, 0, 5, 15, 30, source.randrange(60)])
        hour = source.choice([0, 1, 2, 2, 2, 3, 4, 6, 8])
        every_hour = number % 20 == 0
        spec = CronSpec(expression=f"{minute} {'*' if every_hour else hour} * * *")
        job_id = await add_job(database, triggers=of(spec), priority=source.choice([3, 5, 5, 5, 7]))
        usual[job_id] = round(source.lognormvariate(4.5, 1) * 1_000)
        past = [round(usual[job_id] * source.lognormvariate(0, 0.5)) for _ in range(50)]
        await add_history(database, job_id, past, now=START - HOUR_MS)
    end = START + 7 * 24 * HOUR_MS
    expected = Simulation(await situation_of(database), end=end).run()
    chance = random.Random(42)

    def lasts_ms(job_id: int) -> int:
        return round(usual[job_id] * chance.lognormvariate(0, 0.5))

    await Recording(admin, node, clock, lasts_ms=lasts_ms).until(end)

    late = delays(await all_runs(database))
    recorded = quantile(late, 0.95)
    assert recorded is not None
    assert expected.delay_p95_ms is not None
    print(f"p95 of {len(late)} starts: {recorded} ms, foretold {expected.delay_p95_ms} ms")
    assert recorded > 60_000
    assert abs(expected.delay_p95_ms - recorded) <= recorded / 5
