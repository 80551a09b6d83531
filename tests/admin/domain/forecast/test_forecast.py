"""Forecasts: what changes make different, and that both ways to count slots agree."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from tests.admin.domain.forecast.situations import (
    DAY_MS,
    HOUR_MS,
    NOW,
    cron,
    job,
    node,
    situation,
)
from tests.admin.kit.workflows import step
from tickwheel_admin.domain.alarms.job_alarm import JobAlarm
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RuleLimits
from tickwheel_admin.domain.calendars.calendar import Calendar, CalendarSpec
from tickwheel_admin.domain.forecast.changes import (
    NEW_JOB_IDS,
    CalendarChange,
    Change,
    ExecutorPause,
    JobAdded,
    JobEdit,
    JobPause,
    NodeChange,
    PoolChange,
)
from tickwheel_admin.domain.forecast.comparison import ForecastComparison, compare
from tickwheel_admin.domain.forecast.simulation import Simulation
from tickwheel_admin.domain.forecast.situation import ForecastSituation, MeasuredRun, OpenRun
from tickwheel_admin.domain.jobs.children import ChildLink
from tickwheel_admin.domain.pools.pool import PoolShare
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.routing.strategies import Routing
from tickwheel_admin.domain.runs.blocking import (
    Blocking,
    BlockingPolicy,
    Lanes,
    Standing,
    Verdict,
    decide,
)
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.workflows.graph import HANDLER, Workflow

HOURLY = cron("0 * * * *")


def forecast_of(found: ForecastSituation, hours: int = 3, **changes: object) -> Simulation:
    return Simulation(found, end=NOW + hours * HOUR_MS + 1, **changes)  # type: ignore[arg-type]


def compared(found: ForecastSituation, *changes: Change, hours: int = 3) -> ForecastComparison:
    return compare(found, list(changes), end=NOW + hours * HOUR_MS + 1)


def mixed_situation(seed: int) -> ForecastSituation:
    source = random.Random(seed)
    jobs = [
        job(
            number,
            cron(source.choice(["0 * * * *", "*/7 * * * *", "30 * * * *", "0,1,2 * * * *"])),
            measured=tuple(
                MeasuredRun(
                    source.choice([RunState.SUCCEEDED, RunState.SUCCEEDED, RunState.FAILED]),
                    source.randrange(1_000, 900_000),
                    source.randrange(1, 3),
                )
                for _ in range(5)
            ),
            priority=source.randrange(1, 10),
            blocking=BlockingPolicy(strategy=source.choice(list(Blocking))),
            routing=RoutingPolicy(
                strategy=source.choice([Routing.ROUND_ROBIN, Routing.LEAST_BUSY, Routing.SHARDS]),
                shards=3,
            ),
            retry=RetryPolicy(retries=source.randrange(3)),
            timeout_ms=source.choice([None, 600_000]),
            start_within_ms=source.choice([None, 300_000]),
            pool=source.choice([None, None, PoolShare(name="x", slots=1, pool_id=7)]),
            children=(ChildLink(job_id=1),) if number % 3 == 0 else (),
        )
        for number in range(1, 20)
    ]
    return situation(*jobs, nodes=(node(1), node(2, slots=3)), pools={7: 2})


@pytest.mark.parametrize("seed", range(4))
def test_slots_that_are_counted_and_slots_that_are_routed_give_the_same_forecast(seed: int) -> None:
    found = mixed_situation(seed)
    counted, routed = forecast_of(found, 8).run(), forecast_of(found, 8, routed=True).run()
    assert counted == routed
    assert counted.late > 0
    assert max(hour.busy for hour in counted.hours) == 5


def test_the_same_seed_gives_the_same_forecast_and_another_one_another() -> None:
    found = mixed_situation(1)
    assert forecast_of(found, seed=3).run() == forecast_of(found, seed=3).run()
    assert forecast_of(found, seed=3).run() != forecast_of(found, seed=4).run()


def test_a_situation_passes_through_json() -> None:
    found = replace(
        mixed_situation(1), calendars=(Calendar(name="c", version=3, spec=CalendarSpec()),)
    )
    text = msgspec.json.encode(found)
    again = msgspec.json.decode(text, type=ForecastSituation)
    assert forecast_of(again).run() == forecast_of(found).run()


@pytest.mark.parametrize("strategy", list(Blocking))
@pytest.mark.parametrize("started", [False, True])
def test_a_run_that_is_alone_may_start(strategy: Blocking, *, started: bool) -> None:
    """The forecast does not ask `decide` about it."""
    alone = Standing(run_id=1, lane=0, scheduled_at=5, started=started, ready=True)
    lanes = Lanes(live={}, waiting={0: [alone]})
    assert decide(BlockingPolicy(strategy=strategy), alone, lanes) is Verdict.START


# --- what changes make different ------------------------------------------------------------------


def test_a_paused_job_does_not_fire_and_its_children_starve() -> None:
    found = situation(job(1, HOURLY, children=(ChildLink(job_id=2),)), job(2))
    told = compared(found, JobPause(job_id=1, paused=True))
    assert (told.fires_gone, told.fires_new) == (3, 0)
    assert [each.job_id for each in told.jobs if each.starves] == [2]
    assert told.before.runs == 5  # the third child would come after the end
    assert told.after.runs == 0


def test_a_resumed_job_fires_from_now_on() -> None:
    paused = replace(job(1, HOURLY), paused=True)
    told = compared(situation(paused), JobPause(job_id=1, paused=False))
    assert (told.before.fires, told.after.fires, told.fires_new) == (0, 3, 3)


def test_a_paused_executor_fires_nothing() -> None:
    told = compared(
        situation(job(1, HOURLY), job(2, HOURLY)), ExecutorPause(executor_id=1, paused=True)
    )
    assert (told.before.fires, told.after.fires) == (6, 0)
    again = situation(job(1, HOURLY), paused={1: NOW})
    told = compared(again, ExecutorPause(executor_id=1, paused=False))
    assert (told.before.fires, told.after.fires) == (0, 3)


def test_an_edit_keeps_the_triggers_that_stay_and_plans_new_ones_from_now() -> None:
    one = job(1, HOURLY, cron("10 * * * *"))
    new = replace(one.config, triggers=(HOURLY, cron("40 * * * *")))
    told = compared(situation(one), JobEdit(job_id=1, config=new))
    difference = told.jobs[0]
    assert difference.first_gone == tuple(NOW + h * HOUR_MS + 600_000 for h in range(3))
    assert difference.first_new == tuple(NOW + h * HOUR_MS + 2_400_000 for h in range(3))


def test_a_drained_node_leaves_its_runs_to_the_others_which_fill_up() -> None:
    jobs = [job(number, HOURLY) for number in range(1, 5)]
    found = situation(*jobs, nodes=(node(1), node(2)))
    told = compared(found, NodeChange(node_id=2, drain=True))
    assert (told.before.slots, told.after.slots) == (4, 2)
    assert told.before.delay_p95_ms == 0
    assert told.after.delay_p95_ms == 60_000
    assert told.after.hours[1].waiting == 2
    assert told.after.hours[1].full_ms == 120_000
    fewer = compared(found, NodeChange(node_id=2, slots=1))
    assert fewer.after.slots == 3
    assert fewer.after.hours[1].full_ms == 60_000


def test_a_run_of_a_drained_node_goes_on_and_takes_no_slot_of_the_others() -> None:
    live = OpenRun(
        id=9,
        job_id=1,
        trigger_id=None,
        origin=Origin.API,
        scheduled_at=NOW - 1_000,
        due_at=NOW - 1_000,
        first_due_at=NOW - 1_000,
        priority=5,
        tries=1,
        node_id=2,
        started_at=NOW - 1_000,
    )
    found = situation(job(1, lasts_ms=HOUR_MS), nodes=(node(1), node(2)), open_runs=(live,))
    told = compared(found, NodeChange(node_id=2, drain=True))
    assert (told.before.hours[0].busy, told.before.slots) == (1, 4)
    assert told.after.slots == 2


def test_a_calendar_takes_fires_away() -> None:
    holidays = Calendar(name="holidays", version=1, spec=CalendarSpec())
    closed = replace(holidays, version=2, spec=CalendarSpec(weekdays=(1, 2, 3, 4, 5, 6, 7)))
    found = situation(job(1, cron("0 * * * *", calendar="holidays")), calendars=(holidays,))
    told = compared(found, CalendarChange(calendar=closed))
    assert (told.before.fires, told.after.fires) == (3, 0)


def live_run(number: int, job_id: int) -> OpenRun:
    return OpenRun(
        id=number,
        job_id=job_id,
        trigger_id=None,
        origin=Origin.API,
        scheduled_at=NOW - 1_000,
        due_at=NOW - 1_000,
        first_due_at=NOW - 1_000,
        priority=5,
        tries=1,
        node_id=1,
        started_at=NOW - 1_000,
    )


def test_runs_of_a_smaller_pool_wait_and_those_of_a_closed_one_do_not_start() -> None:
    share = PoolShare(name="x", slots=2, pool_id=7)
    found = situation(
        *(job(number, HOURLY, pool=share) for number in (1, 2)),
        nodes=(node(slots=9),),
        pools={7: 4},
    )
    told = compared(found, PoolChange(pool_id=7, slots=3))
    assert (told.before.delay_p95_ms, told.after.delay_p95_ms) == (0, 60_000)
    assert (told.before.hours[1].busy, told.after.hours[1].busy) == (2, 1)
    assert told.before.slots == told.after.slots == 9, "of the nodes"
    heavy = compared(found, PoolChange(pool_id=7, slots=1))
    assert heavy.after.delay_p95_ms == 60_000, "a run that is larger than its pool takes all of it"
    closed = compared(found, PoolChange(pool_id=7, slots=0))
    assert [each.after and each.after.started for each in closed.jobs] == [0, 0]
    assert closed.after.most_waiting == 6
    assert compared(found, PoolChange(pool_id=8, slots=0)).jobs == (), "of another installation"


def test_live_runs_keep_the_slots_that_they_took_of_a_pool_that_changes() -> None:
    # The pool was made smaller than a run of job 1 already: it took both slots, not three.
    found = situation(
        job(1, lasts_ms=3 * HOUR_MS, pool=PoolShare(name="x", slots=3, pool_id=7)),
        job(2, HOURLY, pool=PoolShare(name="x", slots=2, pool_id=7)),
        nodes=(node(slots=9),),
        pools={7: 2},
        open_runs=(live_run(9, 1),),
    )
    told = compared(found, PoolChange(pool_id=7, slots=4))
    assert (told.before.delay_p95_ms, told.after.delay_p95_ms) == (2 * HOUR_MS - 1_000, 0)


def test_a_new_job_fires_from_now_on_and_lasts_as_the_others_usually_do() -> None:
    found = situation(job(1, HOURLY, lasts_ms=90_000), nodes=(node(slots=1),))
    new = job(5, HOURLY, cron("30 * * * *"), priority=9).config
    told = compared(found, JobAdded(job_id=NEW_JOB_IDS + 3, executor_id=1, config=new))
    (first,) = told.jobs
    assert (first.job_id, first.before, first.fires_new) == (NEW_JOB_IDS + 3, None, 6)
    assert first.first_new == tuple(NOW + half * HOUR_MS // 2 for half in range(1, 7))
    assert first.measured_runs == 0
    assert first.after is not None
    assert first.after.delay_p95_ms == 90_000, "behind the others"
    assert told.after.hours[1].full_ms - told.before.hours[1].full_ms == 2 * 90_000
    assert (told.basis.measured_jobs, told.basis.assumed_jobs) == (1, 1)
    assert told.basis.assumed_ms == 90_000


def test_a_new_job_may_be_the_first_of_its_executor_or_a_workflow() -> None:
    config = job(5, HOURLY).config
    told = compared(situation(), JobAdded(job_id=NEW_JOB_IDS, executor_id=1, config=config))
    assert (told.before.slots, told.after.slots) == (2, 2)
    assert (told.basis.assumed_jobs, told.basis.assumed_ms) == (1, 10_000)
    steps = Workflow(steps=(step("a"), step("b", "a")))
    graph = job(5, HOURLY, handler=HANDLER, workflow=steps).config
    told = compared(situation(), JobAdded(job_id=NEW_JOB_IDS, executor_id=1, config=graph))
    assert (told.fires_new, told.after.runs) == (3, 8), "the last second step comes after the end"
    assert told.basis.workflows == 1


def test_a_deadline_is_missed_when_runs_have_to_wait() -> None:
    alarm = JobAlarm(
        name="by one", kind=AlarmKind.DEADLINE_MISSED, limits=RuleLimits(by="01:01:30")
    )
    jobs = [job(1, cron("0 1 * * *"), alarms=(alarm,), priority=9), job(2, cron("0 1 * * *"))]
    found = situation(*jobs)
    told = compared(found, NodeChange(node_id=1, slots=1))
    assert (told.before.missed, told.after.missed) == (0, 1)
    late = next(each for each in told.jobs if each.job_id == 1)
    assert late.after is not None
    assert late.after.missed == (NOW + HOUR_MS + 90_000,)


def test_runs_that_expire_or_are_discarded_are_told_by_reason() -> None:
    slow = job(
        1,
        cron("*/10 * * * *"),
        lasts_ms=1_500_000,
        blocking=BlockingPolicy(strategy=Blocking.DISCARD_LATER),
    )
    hasty = job(2, cron("1 * * * *"), start_within_ms=30_000)
    told = forecast_of(situation(slow, hasty, nodes=(node(slots=1),))).run()
    assert told.skipped == {"discarded": 12, "expired": 2}


def test_failures_are_tried_again_and_take_slots_each_time() -> None:
    failing = job(
        1,
        cron("0 1 * * *"),
        measured=(MeasuredRun(RunState.FAILED, 60_000, 3),),
        retry=RetryPolicy(retries=2, delay_ms=60_000, factor=1.0),
    )
    told = forecast_of(situation(failing)).run()
    assert told.jobs[0].failed == 1
    assert sum(told.minutes) == 180_000


def test_only_as_many_runs_are_simulated_as_are_allowed() -> None:
    told = compare(situation(job(1, cron("* * * * *"))), [], end=NOW + DAY_MS, max_runs=100)
    assert told.truncated
    assert told.before.runs == told.after.runs == 100
    assert NOW + 99 * 60_000 < told.end <= NOW + 101 * 60_000


# --- what it rests on, and what would help --------------------------------------------------------


def test_what_was_not_measured_is_assumed_to_last_as_the_others_do() -> None:
    found = situation(job(1, HOURLY, lasts_ms=90_000), job(2, HOURLY, measured=()))
    told = compared(found)
    assert (told.basis.measured_jobs, told.basis.assumed_jobs) == (1, 1)
    assert told.basis.assumed_ms == 90_000
    assert told.basis.measured_since == NOW - DAY_MS
    assert told.before == told.after


def test_a_better_minute_is_proposed_for_a_job_of_the_peak() -> None:
    crowd = [job(number, cron("0 2 * * *"), lasts_ms=600_000) for number in range(1, 5)]
    mine = job(9, cron("0 2 * * *"), lasts_ms=600_000)
    edit = JobEdit(job_id=9, config=mine.config)
    told = compared(situation(*crowd, mine), edit)
    (proposal,) = told.spread
    assert proposal.job_id == 9
    assert proposal.new_minute == 30  # all have gone by then
    assert proposal.expression == "30 2 * * *"
    moved = replace(mine.config, triggers=(cron(proposal.expression),))
    better = compared(situation(*crowd, mine), JobEdit(job_id=9, config=moved))
    assert better.after.late < better.before.late
    assert not better.spread
    # What the answer tells of its own proposals is what asking with them says.
    assert told.with_spread == better.after
    assert better.with_spread is None
