"""Runs that stand in line in a forecast: the blocking strategy's answers, found without looking at
everything that waits."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.admin.domain.forecast.situations import NOW, job
from tickwheel_admin.domain.forecast.draws import Durations
from tickwheel_admin.domain.forecast.runs import ForecastRun, JobModel, RunPhase
from tickwheel_admin.domain.runs.blocking import Blocking, BlockingPolicy, Lanes, Verdict, decide


def a_line(policy: BlockingPolicy) -> JobModel:
    one = job(1, blocking=policy)
    return JobModel(one, Durations(one, seed=0, slow=False, assumed_ms=1_000))


def a_run(model: JobModel, number: int, at: int) -> ForecastRun:
    return ForecastRun(model, id=number, scheduled_at=at, due_at=at, priority=0)


def as_decided(model: JobModel, run: ForecastRun) -> Verdict:
    everything = Lanes(
        live={0: [each.standing() for each in model.live[0].values()]},
        waiting={0: [each.standing() for each in model.waiting[0].values()]},
    )
    return decide(model.policy, run.standing(), everything)


@pytest.mark.parametrize("strategy", list(Blocking))
def test_the_verdict_is_that_of_the_blocking_strategy(strategy: Blocking) -> None:
    chance = random.Random(strategy.value)
    seen = set()
    for _ in range(400):
        limit = chance.choice([None, None, 0, 2]) if strategy is Blocking.SERIAL else None
        policy = BlockingPolicy(
            strategy=strategy, concurrency=chance.randint(1, 3), max_waiting=limit
        )
        model = a_line(policy)
        runs = [a_run(model, n, NOW + chance.randint(0, 4)) for n in range(chance.randint(1, 7))]
        for run in runs:
            run.tries = chance.choice([0, 0, 1])
            run.phase = chance.choice([RunPhase.COMING, RunPhase.READY, RunPhase.PARKED])
            model.waits(run)
            if chance.random() < 0.25:
                run.phase = RunPhase.LIVE
                model.lives(run)
        for run in model.waiting[0].values():
            if run.phase is RunPhase.READY:
                verdict = model.verdict(run)
                assert verdict is as_decided(model, run), (policy, run.standing())
                seen.add(verdict)
    assert len(seen) > 1 or strategy is Blocking.PARALLEL


def test_of_thousands_that_wait_few_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    model = a_line(BlockingPolicy(strategy=Blocking.SERIAL))
    runs = [a_run(model, number, NOW + number) for number in range(3_000)]
    for run in runs:
        run.phase = RunPhase.PARKED
        model.waits(run)
    looked_at = 0
    standing = ForecastRun.standing

    def counted(run: ForecastRun) -> Any:
        nonlocal looked_at
        looked_at += 1
        return standing(run)

    monkeypatch.setattr(ForecastRun, "standing", counted)

    assert model.verdict(runs[0]) is Verdict.START
    looked_at = 0
    assert {model.verdict(run) for run in runs[1:]} == {Verdict.WAIT}

    assert looked_at == 0
