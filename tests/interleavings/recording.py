"""Scenarios of results: recorders of several admins, and sweepers that are of another mind."""

from __future__ import annotations

from collections.abc import Iterator

from tests.interleavings.admins import Admin
from tests.interleavings.props import is_live
from tests.interleavings.stage import Stage, result_of
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Run, RunState
from tickwheel_admin.store.database import tables
from tickwheel_shared.protocol import Outcome, ReceiptCode, ResultReceipt

RETRY_LATER = RetryPolicy(retries=1, delay_ms=60_000)


def _receipts(admin: Admin, run: Run) -> list[ReceiptCode]:
    return [r.receipt for r in admin.sent(ResultReceipt) if r.run == run.id]


def _told_well(stage: Stage, run: Run) -> bool:
    """Whether nodes were told that the result counted: once that it was new, if at all, for a
    commit whose answer was lost is repeated and finds the result there.
    """
    told = [receipt for admin in stage.admins for receipt in _receipts(admin, run)]
    kept = {ReceiptCode.RECORDED, ReceiptCode.ALREADY_RECORDED}
    return bool(told) and set(told) <= kept and told.count(ReceiptCode.RECORDED) <= 1


def timed_out_twice(stage: Stage) -> Iterator[None]:
    """In one millisecond a node says "timed out" and two sweepers do: the run ends once."""
    recorder, *sweepers = [stage.admin() for _ in range(3)]
    node_id = stage.node(heard_by=stage.admins)
    retry = stage.random.choice((RetryPolicy(), RETRY_LATER))
    job = stage.job(timeout_ms=1_000, retry=retry)
    run = stage.running(job, node_id, started_ms_ago=30_000)
    outcome = stage.random.choice((Outcome.TIMED_OUT, Outcome.SUCCEEDED))
    session = recorder.links.sessions[node_id]
    stage.acts(recorder, "records", recorder.records, (session, result_of(run, outcome)))
    for sweeper in sweepers:
        stage.acts(sweeper, "sweeps", sweeper.sweeps)
    yield
    after = stage.run(run.id)
    stage.expect(after.tries == 1, f"{after.tries} tries are counted for one")
    if after.state is RunState.QUEUED:
        stage.expect(retry is RETRY_LATER, "a run without retries is tried again")
        archived = stage.rows(tables.run_attempt.select())
        stage.expect(len(archived) == 1, f"{len(archived)} attempts are in the archive")
    else:
        stage.expect(not is_live(after), f"the run is still {after.state.value}")
    if after.state is RunState.SUCCEEDED:
        stage.expect(_told_well(stage, run), "its result counted, and its node was told otherwise")


def opposite_orders(stage: Stage) -> Iterator[None]:
    """Admins record batches over the same nodes and runs in opposite orders."""
    admins = [stage.admin() for _ in range(stage.random.randint(2, 3))]
    nodes = [stage.node(heard_by=admins) for _ in range(3)]
    job = stage.job(retry=stage.random.choice((RetryPolicy(), RETRY_LATER)))
    runs = [stage.running(job, node_id) for node_id in nodes for _ in range(3)]
    for number, admin in enumerate(admins):
        mine = [run for run in runs if stage.random.random() < 0.6]
        mine.sort(key=lambda run: run.id, reverse=bool(number % 2))
        said = [
            (admin.links.sessions[run.node_id], result_of(run, stage.random.choice(list(OUTCOMES))))
            for run in mine
            if run.node_id
        ]
        stage.acts(admin, "records", admin.records, *said)
    yield
    for run in runs:
        after = stage.run(run.id)
        receipts = [receipt for admin in admins for receipt in _receipts(admin, run)]
        if receipts:
            stage.expect(not is_live(after), f"run {run.id} ended and is {after.state.value}")
            stage.expect(after.tries == 1, f"run {run.id} counts {after.tries} tries")
        else:
            stage.expect(is_live(after), f"run {run.id} is {after.state.value}: nobody was told so")


OUTCOMES = (Outcome.SUCCEEDED, Outcome.FAILED)


def accepted_after_all(stage: Stage) -> Iterator[None]:
    """A node's death, its last words, and the next claim come at once."""
    recorder, sweeper, other, claimer = [stage.admin() for _ in range(4)]
    dead = stage.node(
        heard_by=[recorder],
        state="dead",
        ended_at=stage.began_at - 100,
        lease_expires_at=1,
        full_lease_at=1,
    )
    stage.node(heard_by=[claimer], slots=2)
    job = stage.job(retry=RetryPolicy(retries=1, delay_ms=0))
    runs = [stage.running(job, dead) for _ in range(2)]
    session = recorder.links.sessions[dead]
    said = [(session, result_of(run, stage.random.choice(OUTCOMES))) for run in runs]
    stage.acts(recorder, "records", recorder.records, *said)
    stage.acts(sweeper, "sweeps", sweeper.sweeps)
    stage.acts(other, "sweeps", other.sweeps)
    stage.acts(claimer, "claims", claimer.claims)
    yield
    for run in runs:
        after = stage.run(run.id)
        stage.expect(after.tries in (1, 2), f"run {run.id} counts {after.tries} tries")
        stage.expect(
            after.node_id != dead or not is_live(after), f"run {run.id} is live on a dead node"
        )
        if after.state is RunState.SUCCEEDED:
            stage.expect(_told_well(stage, run), f"run {run.id} succeeded, its node knows not")


SCENARIOS = (timed_out_twice, opposite_orders, accepted_after_all)
