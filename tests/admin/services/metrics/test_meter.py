"""Counters only rise, whatever becomes of the executors that they are of."""

from __future__ import annotations

from tests.admin.domain.runs.test_measures import DUE, accepted, claimed, failed, run
from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.run import Move, RunState
from tickwheel_admin.services.metrics.histogram import Histogram
from tickwheel_admin.services.metrics.meter import OTHER, Meter
from tickwheel_admin.store.database.facts import BatchStep, TransactionFacts


def end_of(executor_id: int, *, job_id: int = 2) -> Move:
    of = run(executor_id=executor_id, job_id=job_id)
    return failed(accepted(claimed(of, at=DUE), at=DUE).after, at=DUE + 400)


def test_executors_without_series_of_their_own_are_counted_together() -> None:
    meter = Meter()
    meter.committed(TransactionFacts(moves=[[end_of(1), end_of(2)], [end_of(3)]]))

    found = meter.read(executors=[1], jobs=[]).executors

    assert {each: counts.ended[RunState.FAILED] for each, counts in found.items()} == {1: 1, 0: 2}


def test_no_counter_falls_when_an_executor_gets_series_or_is_deleted() -> None:
    meter = Meter()

    def of_others() -> int:
        meter.committed(TransactionFacts(moves=[[end_of(1), end_of(2)]]))
        return meter.read(executors=named, jobs=[]).executors[OTHER].ended[RunState.FAILED]

    named = [1]
    first = of_others()
    named = [1, 2]  # 2 is counted by itself from now on
    second = of_others()
    named = [2]  # 1 is deleted: what was counted of it must not look as if others had failed
    third = of_others()

    assert (first, second, third) == (1, 1, 2)
    found = meter.read(executors=[2], jobs=[]).executors
    assert found.keys() == {OTHER, 2}
    assert found[2].ended[RunState.FAILED] == 2


def test_starts_claims_and_durations_are_counted_by_executor() -> None:
    meter = Meter()
    of = run(executor_id=5)
    claim = moves.claimed(of, node_id=1, token="t", now=DUE + 5)
    start = accepted(claim.after, at=DUE + 30)
    end = failed(start.after, at=DUE + 400)

    meter.committed(TransactionFacts(moves=[[claim], [start], [end]], planned=[[of, of]]))
    counts = meter.read(executors=[5], jobs=[]).executors[5]

    assert (counts.planned, counts.claimed) == (2, 1)
    assert counts.delays.total == 0.03
    assert counts.durations.total == 0.3
    assert sum(counts.delays.counts) == sum(counts.durations.counts) == 1


def test_a_missed_fire_that_nothing_makes_up_for_has_ended_when_it_is_planned() -> None:
    meter = Meter()
    summary = moves.skipped(run(executor_id=5), reason="misfire", now=DUE).after

    meter.committed(TransactionFacts(planned=[[summary]]))

    assert meter.read(executors=[5], jobs=[]).executors[5].ended == {RunState.SKIPPED: 1}


def test_jobs_are_counted_from_when_they_are_named() -> None:
    meter = Meter()
    meter.committed(TransactionFacts(moves=[[end_of(1, job_id=7)]]))
    assert meter.read(executors=[], jobs=[7]).jobs[7].ended.total() == 0

    meter.committed(TransactionFacts(moves=[[end_of(1, job_id=7), end_of(1, job_id=8)]]))
    found = meter.read(executors=[], jobs=[7]).jobs

    assert found.keys() == {7}
    assert found[7].ended == {RunState.FAILED: 1}
    assert found[7].succeeded_at is None


def test_what_was_read_changes_no_more() -> None:
    meter = Meter()
    facts = TransactionFacts(moves=[[end_of(1)]], batches=[(BatchStep.RECORDING, 3)], log_bytes=10)
    meter.committed(facts)
    before = meter.read(executors=[1], jobs=[])

    meter.committed(facts)

    assert before.executors[1].ended[RunState.FAILED] == 1
    assert before.batches[BatchStep.RECORDING].total == 3
    assert before.log_bytes == 10
    assert meter.read(executors=[1], jobs=[]).log_bytes == 20


def test_a_histogram_counts_a_value_up_to_each_bound_that_it_does_not_exceed() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)

    assert histogram.up_to_bounds() == [2, 3, 4]
    assert histogram.total == 12
