"""The moves of a run, as rules without a database."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tickwheel_admin.domain.runs import moves
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import AFTER_LOST, PARKED_AT, Move, Origin, Run, RunState
from tickwheel_shared.protocol import Outcome

SCHEDULED, CREATED, NOW = 10_000, 12_000, 60_000


def parked(**changes: object) -> Run:
    """A run that waits for an earlier one of its job."""
    values = {
        "id": 7,
        "executor_id": 1,
        "job_id": 2,
        "job_revision": 1,
        "trigger_id": None,
        "origin": Origin.MANUAL,
        "scheduled_at": SCHEDULED,
        "created_at": CREATED,
        "state": RunState.QUEUED,
        "due_at": PARKED_AT,
    }
    return Run(**(values | changes))  # type: ignore[arg-type]


def late_result(run: Run) -> Move:
    return moves.ended(
        run,
        Outcome.SUCCEEDED,
        RetryPolicy(retries=3, delay_ms=1_000),
        duration_ms=5,
        result=None,
        message=None,
        log_lines=0,
        now=NOW,
    )


@pytest.mark.parametrize(
    "move",
    [
        lambda run: moves.skipped(run, reason="covered", now=NOW),
        lambda run: moves.skipped(run, reason="expired", now=NOW),
        lambda run: moves.node_gone(run, now=NOW),
        lambda run: moves.cancelled_while_queued(run, now=NOW),
        lambda run: moves.expanded(run, shards=2, now=NOW),
        lambda run: moves.claimed(run, node_id=1, token="t", now=NOW),
        late_result,
    ],
)
def test_no_run_that_has_left_the_queue_waits_for_its_turn(move: Callable[[Run], Move]) -> None:
    after = move(parked(tries=1, attempt=1, reason=AFTER_LOST)).after
    assert after.state is not RunState.QUEUED
    assert SCHEDULED <= after.due_at <= NOW


def test_a_parked_run_that_ends_was_due_when_it_first_could_have_started() -> None:
    def due_at(**changes: object) -> int:
        return moves.cancelled_while_queued(parked(**changes), now=NOW).after.due_at

    assert due_at() == SCHEDULED
    assert due_at(jitter_ms=500) == SCHEDULED + 500
    assert due_at(origin=Origin.MISFIRE) == CREATED  # it was made up for later than its instant
    assert due_at(scheduled_at=NOW + 5_000) == NOW
    assert due_at(due_at=NOW - 1) == NOW - 1  # it was not parked
