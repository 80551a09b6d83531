"""The plan of a night: ends in the draws, deadlines, what they wait for, and what would help."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.admin.domain.forecast.situations import HOUR_MS, NOW, cron, job, node, situation
from tests.admin.kit.crowded_night import crowd
from tickwheel_admin.domain.forecast.critical_path import StepOrigin, WaitReason
from tickwheel_admin.domain.forecast.night_plan import (
    DeadlineForecast,
    DeadlineVerdict,
    NightPlan,
    PlanDeadline,
    PlanRequest,
    answer_plan,
    plan_night,
)
from tickwheel_admin.domain.forecast.remedies import RemedyKind
from tickwheel_admin.domain.forecast.situation import ForecastSituation, MeasuredRun, OpenRun
from tickwheel_admin.domain.jobs.children import ChildLink
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy
from tickwheel_admin.domain.runs.run import Origin, RunState

MINUTE_MS = 60_000


def planned(found: ForecastSituation, *deadlines: PlanDeadline, **changes: Any) -> NightPlan:
    values = {"until": NOW + 12 * HOUR_MS, "end": NOW + 12 * HOUR_MS, "executor_id": 1}
    return plan_night(PlanRequest(situation=found, deadlines=list(deadlines), **(values | changes)))


def by(job_id: int, hour: int, **changes: Any) -> PlanDeadline:
    return PlanDeadline(rule_id=7, job_id=job_id, at=NOW + hour * HOUR_MS, since=NOW, **changes)


def only(plan: NightPlan) -> DeadlineForecast:
    [found] = plan.deadlines
    return found


def taking(*minutes: int) -> tuple[MeasuredRun, ...]:
    return tuple(MeasuredRun(RunState.SUCCEEDED, each * MINUTE_MS, 1) for each in minutes)


def minutes_of(at: int | None) -> float | None:
    return None if at is None else (at - NOW) / MINUTE_MS


def test_bars_tell_the_middle_and_the_slow_end_of_the_draws() -> None:
    """Three of five runs take ten minutes, the others an hour."""
    found = situation(
        job(1, cron("0 1 * * *"), measured=taking(*[10] * 30, *[60] * 20)),
        job(2, cron("0 2 * * *"), lasts_ms=5 * MINUTE_MS, children=(ChildLink(job_id=3),)),
        job(3, lasts_ms=MINUTE_MS),
    )
    plan = planned(found)
    first, second, child = plan.bars
    assert (minutes_of(first.start_at), minutes_of(first.end_at)) == (60, 70)
    assert minutes_of(first.slow_end_at) == 120
    assert (second.run_id, second.is_running, second.share) == (None, False, 1)
    assert (child.job_id, child.after_job_id, minutes_of(child.start_at)) == (3, 2, 125)
    assert plan.draws == 20
    assert plan.slots == 2


def test_a_run_that_takes_longer_than_all_before_goes_on() -> None:
    """What has run for two hours does not end at once because it used to take ten minutes."""
    live = OpenRun(
        id=91, job_id=1, trigger_id=None, origin=Origin.API, scheduled_at=NOW, due_at=NOW,
        first_due_at=NOW, priority=5, tries=1, node_id=1, started_at=NOW - 2 * HOUR_MS,
    )  # fmt: skip
    short = planned(situation(job(1, measured=taking(10)), open_runs=(live,)))
    assert minutes_of(short.bars[0].end_at) == 30
    assert (short.bars[0].run_id, short.bars[0].is_running, short.bars[0].node_id) == (91, True, 1)
    longer = planned(situation(job(1, measured=taking(10, 10, 10, 200)), open_runs=(live,)))
    assert minutes_of(longer.bars[0].end_at) == 80, "as the only one that took so long"


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (taking(30), DeadlineVerdict.FINE),
        (taking(30, 30, 30, 200), DeadlineVerdict.AT_RISK),
        (taking(200), DeadlineVerdict.MISSED),
    ],
)
def test_a_verdict_says_how_many_draws_miss(
    measured: tuple[MeasuredRun, ...], verdict: DeadlineVerdict
) -> None:
    found = only(planned(situation(job(1, cron("0 1 * * *"), measured=measured)), by(1, 3)))
    assert found.verdict is verdict
    assert (found.miss_share > 0) == (verdict is not DeadlineVerdict.FINE)
    assert found.remedies == (), "it waits for nobody"


def test_what_has_succeeded_already_is_done() -> None:
    found = situation(job(1, cron("0 1 * * *"), measured=taking(200)))
    done = only(planned(found, by(1, 3, is_met=True)))
    assert (done.verdict, done.miss_share, done.path) == (DeadlineVerdict.DONE, 0, ())


def test_failures_and_backfills_meet_no_deadline() -> None:
    fails = (MeasuredRun(RunState.FAILED, MINUTE_MS, 1),)
    failing = only(planned(situation(job(1, cron("0 1 * * *"), measured=fails)), by(1, 3)))
    assert (failing.verdict, failing.end_at) == (DeadlineVerdict.MISSED, None)
    backfill = OpenRun(
        id=91, job_id=1, trigger_id=None, origin=Origin.BACKFILL, scheduled_at=NOW, due_at=NOW,
        first_due_at=NOW, priority=5,
    )  # fmt: skip
    other = planned(situation(job(1, measured=taking(1)), open_runs=(backfill,)), by(1, 3))
    assert (only(other).verdict, len(other.bars)) == (DeadlineVerdict.MISSED, 1)


def test_a_miss_is_explained_by_its_chain_and_who_holds_the_slots() -> None:
    """The slot is taken from 1:00 to 4:30; the load ends at 5:30, and the report at 6:00."""
    found = only(planned(crowd(), by(4, 5)))
    assert (found.verdict, minutes_of(found.end_at)) == (DeadlineVerdict.MISSED, 360)
    load, report = found.path
    assert (load.job_id, load.origin, load.waits_for) == (3, StepOrigin.DUE, WaitReason.SLOT)
    assert load.wait_ms == 208 * MINUTE_MS
    assert [(each.job_id, each.held_ms // MINUTE_MS) for each in load.holders] == [
        (1, 118),
        (2, 90),
    ]
    assert (report.job_id, report.origin, report.waits_for) == (4, StepOrigin.PARENT, None)
    assert report.end_at == found.end_at


def test_what_would_help_is_simulated() -> None:
    """Each with the minutes that it brings; what does not bring any is not named."""
    found = only(planned(crowd(), by(4, 5)))
    told = {
        (each.remedy.kind, each.remedy.job_ids, each.remedy.slots): (
            minutes_of(each.end_at),
            (each.gain_ms or 0) // MINUTE_MS,
            each.makes_it,
        )
        for each in found.remedies
    }
    assert told == {
        (RemedyKind.SKIP, (1, 2), 0): (152, 208, True),
        (RemedyKind.SLOTS, (), 2): (152, 208, True),
        (RemedyKind.SLOTS, (), 1): (241, 119, True),
        (RemedyKind.SKIP, (1,), 0): (241, 119, True),
        (RemedyKind.PRIORITY, (3, 4), 0): (270, 90, True),
        (RemedyKind.SKIP, (2,), 0): (270, 90, True),
    }
    assert [each.makes_it for each in found.remedies] == [True] * 6
    assert found.remedies[0].end_at == min(each.end_at or 0 for each in found.remedies)


def test_a_job_whose_earlier_run_goes_on_waits_for_that() -> None:
    serial = BlockingPolicy(strategy=Blocking.SERIAL)
    live = OpenRun(
        id=91, job_id=1, trigger_id=None, origin=Origin.API, scheduled_at=NOW, due_at=NOW,
        first_due_at=NOW, priority=5, tries=1, node_id=1, started_at=NOW - MINUTE_MS,
    )  # fmt: skip
    found = situation(
        job(1, cron("0 1 * * *"), lasts_ms=3 * HOUR_MS, blocking=serial), open_runs=(live,)
    )
    deadline = PlanDeadline(rule_id=7, job_id=1, at=NOW + 5 * HOUR_MS, since=NOW + 4 * HOUR_MS)
    first, second = only(planned(found, deadline)).path
    assert (first.run_id, first.origin) == (91, StepOrigin.RUNNING)
    assert (second.run_id, second.waits_for) == (None, WaitReason.OWN_RUN)


def test_slots_that_nobody_has_help_nobody() -> None:
    """Without a node nothing ever starts: what waits is told, and more slots bring nothing."""
    found = only(planned(situation(job(1, cron("0 1 * * *")), nodes=()), by(1, 3)))
    [step] = found.path
    assert (found.verdict, step.start_at, step.waits_for) == (
        DeadlineVerdict.MISSED,
        None,
        WaitReason.SLOT,
    )
    assert found.remedies == ()


def test_a_plan_has_at_most_so_many_bars() -> None:
    """The jobs with most runs are told in sums."""
    frequent = job(1, cron("* * * * *"), lasts_ms=MINUTE_MS)
    hourly = job(2, cron("30 * * * *"), lasts_ms=2 * MINUTE_MS)
    plan = planned(situation(frequent, hourly), max_bars=100)
    assert {bar.job_id for bar in plan.bars} == {2}
    [told] = plan.sums
    assert (told.job_id, told.runs) == (1, 719)
    assert told.busy_ms == 719 * MINUTE_MS


def test_a_node_has_its_own_runs_only() -> None:
    nodes = (node(1, slots=1), node(2, slots=1))
    jobs = [job(each, cron("0 1 * * *"), lasts_ms=HOUR_MS) for each in (1, 2)]
    plans = [planned(situation(*jobs, nodes=nodes), node_id=each) for each in (1, 2)]
    assert sorted(bar.job_id for plan in plans for bar in plan.bars) == [1, 2]
    assert [len(plan.bars) for plan in plans] == [1, 1]
    assert all(bar.node_id == each for each, plan in zip((1, 2), plans, strict=True)
               for bar in plan.bars)  # fmt: skip


def test_an_answer_is_the_same_each_time_and_survives_json() -> None:
    asked = PlanRequest(
        situation=crowd(),
        until=NOW + 12 * HOUR_MS,
        end=NOW + 12 * HOUR_MS,
        executor_id=1,
        deadlines=[by(4, 5)],
    )
    told = answer_plan(msgspec.json.encode(asked))
    assert msgspec.json.decode(told, type=NightPlan) == plan_night(asked)


def test_of_deadlines_beyond_what_could_be_simulated_nothing_is_said() -> None:
    """An end that was not simulated is not a miss."""
    found = situation(job(1, cron("*/10 * * * *"), lasts_ms=MINUTE_MS))
    plan = planned(found, by(1, 1), by(1, 11), max_runs=20)
    assert plan.truncated
    assert [(each.at, each.verdict) for each in plan.deadlines] == [
        (NOW + HOUR_MS, DeadlineVerdict.FINE)
    ]
    assert len(planned(found, by(1, 1), by(1, 11)).deadlines) == 2
