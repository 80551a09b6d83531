"""Deadlines are forecast while nobody looks: people are warned, and forecasts are scored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.admin.kit.alarm_stage import BERLIN, Stage, at
from tests.admin.kit.clock import Clock
from tests.admin.kit.rows import add_job, change
from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.rule import RuleLimits, RuleScope
from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.forecast.comparison import basis_of
from tickwheel_admin.domain.forecast.deadline_record import (
    DeadlineOutcome,
    DeadlineRecord,
    score_of,
)
from tickwheel_admin.domain.forecast.night_plan import (
    DeadlineForecast,
    DeadlineVerdict,
    NightPlan,
    PlanRequest,
    plan_night,
)
from tickwheel_admin.engine.maintenance.deadline_forecaster import DeadlineForecaster, Plan
from tickwheel_admin.services.events.events import Events
from tickwheel_admin.services.overview.attention.deadlines import deadline_warnings
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.forecast.deadline_forecasts import known_ends, remove_old_forecasts

pytestmark = [pytest.mark.turned_clock(of_servers=True), pytest.mark.every_database(nightly=True)]

MINUTE = 60
BY = at("2026-06-02T06:00")  # a Tuesday


class Oracle:
    """Foretells what a test wants, and notes what it is asked."""

    def __init__(self) -> None:
        self.verdict = DeadlineVerdict.FINE
        self.late_minutes: int | None = -10
        self.asked: list[PlanRequest] = []
        self.is_broken = False

    async def plan(self, request: PlanRequest) -> NightPlan:
        self.asked.append(request)
        if self.is_broken:
            raise Unavailable("forecast.too_long", "It takes too long.")
        late = self.late_minutes
        return NightPlan(
            start=request.situation.now,
            end=request.end,
            truncated=False,
            draws=20,
            slots=4,
            bars=(),
            sums=(),
            deadlines=tuple(
                DeadlineForecast(
                    rule_id=each.rule_id,
                    job_id=each.job_id,
                    at=each.at,
                    verdict=DeadlineVerdict.DONE if each.is_met else self.verdict,
                    end_at=None if late is None else each.at + late * 60_000,
                    slow_end_at=None,
                    miss_share=0.9 if self.verdict is DeadlineVerdict.MISSED else 0.0,
                )
                for each in request.deadlines
            ),
            basis=basis_of(request.situation),
        )


@pytest.fixture
def stage(database: Database, clock: Clock) -> Stage:
    clock.now = at("2026-06-02T01:00")
    return Stage(database, clock)


@pytest.fixture
def oracle() -> Oracle:
    return Oracle()


Forecast = Callable[[], Any]


@pytest.fixture
def forecast(stage: Stage, oracle: Oracle) -> Forecast:
    """Let the loop of an admin do everything that is to be done now."""
    loop = forecaster(stage, oracle.plan)

    async def run() -> None:
        while await loop.run_once():
            pass

    return run


def forecaster(stage: Stage, plan: Plan | None) -> DeadlineForecaster:
    return DeadlineForecaster(stage.database, Events(), plan=plan)


async def deadline(stage: Stage, job_id: int, **fields: Any) -> None:
    await stage.alarms.rule(
        AlarmKind.DEADLINE_MISSED,
        await stage.alarms.channel(),
        scope=RuleScope.JOB,
        job_id=job_id,
        limits=RuleLimits(by="06:00:00", timezone=BERLIN),
        **fields,
    )
    await plan_deadlines(stage)


async def plan_deadlines(stage: Stage) -> None:
    """Let the evaluator of alarms find the next deadlines of new rules."""
    stage.clock.advance(11)  # it looks every ten seconds
    await stage.alarms.evaluate()


async def records(stage: Stage) -> list[Any]:
    table = tables.deadline_forecast
    return await stage.database.read(
        lambda conn: conn.execute(sa.select(table).order_by(table.c.at, table.c.job_id)).all()
    )


async def concerns(stage: Stage, scope: frozenset[int] | None = None) -> list[tuple[str, Any]]:
    def read(conn: sa.Connection) -> list[tuple[str, Any]]:
        found = deadline_warnings(conn, scope, now=now_ms(conn))
        return [(each.template % each.params, each.since) for each in found]

    return await stage.database.read(read)


@pytest.mark.every_database
async def test_people_are_warned_and_the_forecast_is_scored(
    stage: Stage, oracle: Oracle, forecast: Forecast
) -> None:
    job = await add_job(stage.database, name="close the books")
    await deadline(stage, job)
    await stage.alarms.rule(AlarmKind.DEADLINE_WARNING, await stage.alarms.channel())
    await forecast()
    assert await concerns(stage) == []
    [row] = await records(stage)
    assert (row.at, row.verdict, row.outcome, row.early_warned) == (BY, "fine", None, False)

    stage.clock.now = first = at("2026-06-02T02:10")
    oracle.verdict, oracle.late_minutes = DeadlineVerdict.MISSED, 25
    await forecast()
    assert await concerns(stage) == [], "one forecast may be wrong, and there is time"
    stage.clock.advance(10 * MINUTE)
    await forecast()
    text = "“close the books” will probably miss its deadline at 06:00 (Europe/Berlin) by 25 min."
    assert await concerns(stage) == [(text, first)]
    assert await concerns(stage, frozenset({1})) == [(text, first)]
    assert await concerns(stage, frozenset({2})) == []
    assert await stage.after(11) == [[("opened", "close the books")]]

    stage.clock.now = at("2026-06-02T05:20")
    oracle.verdict = DeadlineVerdict.AT_RISK
    await forecast()
    assert await concerns(stage), "what is at risk takes no warning back"

    stage.clock.now = BY + 1_000
    assert await concerns(stage), "nobody knows yet"
    stage.clock.now = BY + 7_000
    await forecast()
    assert await concerns(stage) == []
    told = await stage.alarms.tell()
    assert told == [[("opened", "close the books")]], "the miss itself; no warning is 'recovered'"
    assert [each.kind for each in await stage.alarms.open()] == [AlarmKind.DEADLINE_MISSED]
    [row] = await records(stage)
    assert (row.outcome, row.succeeded_at, row.early_warned) == ("missed", None, True)

    stage.clock.now = BY + 40 * MINUTE * 1_000
    await stage.succeed(job)
    stage.clock.now = BY + 6 * 3_600_000 + 5_000
    await forecast()
    found = await stage.database.read(lambda conn: known_ends(conn, 1, since=BY - 1))
    score = score_of(found, since=BY - 1)
    assert (score.deadlines, score.missed, score.warned, score.warned_and_missed) == (1, 1, 1, 1)
    assert (score.right_percent, score.found_percent) == (100, 100)
    assert score.error_ms == 15 * 60_000
    assert (await records(stage))[0].look_at is None


async def test_a_warning_is_taken_back_when_it_looks_fine_again(
    stage: Stage, oracle: Oracle, forecast: Forecast
) -> None:
    job = await add_job(stage.database, name="report")
    await deadline(stage, job)
    await stage.alarms.rule(AlarmKind.DEADLINE_WARNING, await stage.alarms.channel())
    oracle.verdict, oracle.late_minutes = DeadlineVerdict.MISSED, None
    stage.clock.now = at("2026-06-02T05:15")  # soon: one forecast is enough
    await forecast()
    [(text, _)] = await concerns(stage)
    assert text == "“report” will probably not have succeeded by 06:00 (Europe/Berlin)."
    assert await stage.after(11) == [[("opened", "report")]]
    oracle.verdict = DeadlineVerdict.FINE
    stage.clock.advance(4 * MINUTE)
    await forecast()
    assert await concerns(stage), "not its turn yet"
    stage.clock.advance(1 * MINUTE)
    await forecast()
    assert await concerns(stage) == []
    assert await stage.after(11) == [[("recovered", "report")]]


async def test_a_deadline_that_is_met_recovers_its_warning(
    stage: Stage, oracle: Oracle, forecast: Forecast
) -> None:
    job = await add_job(stage.database, name="report")
    await deadline(stage, job)
    await stage.alarms.rule(AlarmKind.DEADLINE_WARNING, await stage.alarms.channel())
    oracle.verdict = DeadlineVerdict.MISSED
    stage.clock.now = at("2026-06-02T05:30")
    await forecast()
    assert await stage.after(11) == [[("opened", "report")]]
    stage.clock.now = BY - 1_000
    await stage.succeed(job)
    assert await concerns(stage) == [], "no forecast is needed to see that it has succeeded"
    assert await stage.after(0) == [[("recovered", "report")]]
    stage.clock.now = BY + 6_000
    await forecast()
    assert await stage.alarms.tell() == []
    [row] = await records(stage)
    assert (row.outcome, row.succeeded_at, row.look_at) == ("met", BY - 1_000, None)


@pytest.mark.every_database
async def test_of_two_admins_one_forecasts(stage: Stage, oracle: Oracle) -> None:
    job = await add_job(stage.database)
    await deadline(stage, job)
    one, other = (forecaster(stage, oracle.plan) for _ in range(2))
    assert await one.run_once()
    assert not await other.run_once()
    assert len(oracle.asked) == 1
    stage.clock.advance(10 * MINUTE)
    assert await other.run_once()
    assert not await one.run_once()
    assert len(oracle.asked) == 2


async def test_others_take_over_from_an_admin_that_fails(stage: Stage, oracle: Oracle) -> None:
    job = await add_job(stage.database)
    await deadline(stage, job)
    oracle.is_broken = True
    loop = forecaster(stage, oracle.plan)
    assert await loop.run_once()
    assert not await loop.run_once()
    assert await records(stage) == []
    oracle.is_broken = False
    stage.clock.advance(14 * MINUTE)
    assert not await loop.run_once()
    stage.clock.advance(1 * MINUTE)
    assert await loop.run_once()
    assert len(await records(stage)) == 1


async def test_each_executor_has_its_turn_and_only_where_there_are_deadlines(
    stage: Stage, oracle: Oracle, forecast: Forecast
) -> None:
    for executor_id in (1, 2, 3):
        await add_job(stage.database, executor_id=executor_id, tags=("night",))
    await forecast()
    assert oracle.asked == []
    await stage.alarms.rule(
        AlarmKind.DEADLINE_MISSED,
        scope=RuleScope.EXECUTOR,
        executor_id=2,
        limits=RuleLimits(by="06:00:00", timezone=BERLIN),
    )
    await plan_deadlines(stage)
    await forecast()
    assert [each.executor_id for each in oracle.asked] == [2]
    await stage.alarms.rule(
        AlarmKind.DEADLINE_MISSED,
        scope=RuleScope.TAG,
        tag="night",
        limits=RuleLimits(by="05:00:00", timezone=BERLIN),
    )
    await plan_deadlines(stage)
    stage.clock.advance(10 * MINUTE)
    await forecast()
    assert sorted(each.executor_id or 0 for each in oracle.asked[1:]) == [1, 2, 3]
    assert [(row.executor_id, row.at) for row in await records(stage)] == [
        (1, BY - 3_600_000),
        (2, BY - 3_600_000),
        (3, BY - 3_600_000),
    ], "the tag is nearer than the executor, and what no rule sets any more is forgotten"


async def test_who_does_not_forecast_scores_all_the_same(
    stage: Stage, oracle: Oracle, forecast: Forecast
) -> None:
    job = await add_job(stage.database)
    await deadline(stage, job)
    await forecast()
    stage.clock.now = BY + 5_000
    await forecaster(stage, None).run_once()
    [row] = await records(stage)
    assert row.outcome == "missed"


async def test_deadlines_of_what_is_gone_are_not_scored(
    stage: Stage, oracle: Oracle, forecast: Forecast
) -> None:
    jobs = [await add_job(stage.database) for _ in range(3)]
    for job in jobs:
        await deadline(stage, job)
    await forecast()
    assert len(await records(stage)) == 3
    [first, *_] = await records(stage)
    await change(stage.database, tables.alarm_rule, first.rule_id, enabled=False)
    await change(stage.database, tables.job, jobs[1], deleted_at=1)
    stage.clock.now = BY + 5_000
    await forecast()
    assert [row.job_id for row in await records(stage) if row.at == BY] == [jobs[2]]
    assert await stage.database.run(remove_old_forecasts, before=BY + 1, limit=10) == 1


async def test_the_real_forecast_warns_of_what_nothing_starts(stage: Stage) -> None:
    async def plan(request: PlanRequest) -> NightPlan:
        return plan_night(request)

    job = await add_job(stage.database, name="forgotten")
    await deadline(stage, job)
    loop = forecaster(stage, plan)
    for _ in range(2):
        assert await loop.run_once()
        stage.clock.advance(10 * MINUTE)
    assert [text for text, _ in await concerns(stage)] == [
        "“forgotten” will probably not have succeeded by 06:00 (Europe/Berlin)."
    ]


def test_only_what_was_foretold_in_time_counts_for_the_score() -> None:
    def record(**changes: Any) -> DeadlineRecord:
        fields = {
            "rule_id": 1, "job_id": 1, "at": BY, "executor_id": 1, "since": BY - 1, "made_at": BY,
            "verdict": DeadlineVerdict.FINE, "miss_percent": 0, "end_at": None,
            "slow_end_at": None, "early_warned": False, "outcome": DeadlineOutcome.MET,
        }  # fmt: skip
        return DeadlineRecord(**(fields | changes))

    missed = {"outcome": DeadlineOutcome.MISSED}
    score = score_of(
        [
            record(early_end_at=BY - 100, succeeded_at=BY - 50),
            record(early_warned=True),
            record(early_warned=True, **missed, early_end_at=BY + 10, succeeded_at=BY + 20),
            record(**missed),
            record(early_warned=None, **missed),
            record(outcome=None),
        ],
        since=0,
    )
    assert (score.deadlines, score.missed, score.warned, score.warned_and_missed) == (4, 2, 2, 1)
    assert (score.right_percent, score.found_percent, score.error_ms) == (50, 50, 10)
    nothing = score_of([], since=0)
    assert (nothing.right_percent, nothing.found_percent, nothing.error_ms) == (None, None, None)
