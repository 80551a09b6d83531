"""What metrics count of moves: each start once, each end once."""

from __future__ import annotations

from msgspec.structs import replace

from tests.admin.domain.runs.test_moves import parked
from tickwheel_admin.domain.runs import measures, moves
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.runs.run import Move, Origin, Run, RunState
from tickwheel_shared.protocol import Outcome

DUE = 10_000


def run(**changes: object) -> Run:
    return parked(scheduled_at=DUE, created_at=DUE - 2_000, due_at=DUE, **changes)


def claimed(of: Run, *, at: int) -> Run:
    return moves.claimed(of, node_id=1, token="t", now=at).after


def accepted(of: Run, *, at: int) -> Move:
    return moves.accepted(of, timeout_ms=None, now=at)


def failed(of: Run, *, at: int, retries: int = 0) -> Move:
    return moves.ended(
        of,
        Outcome.FAILED,
        RetryPolicy(retries=retries, delay_ms=1_000),
        duration_ms=300,
        result=None,
        message="no",
        log_lines=0,
        now=at,
    )


def test_the_first_start_is_measured_from_when_the_run_was_due() -> None:
    first = accepted(claimed(run(jitter_ms=40), at=DUE + 45), at=DUE + 50)

    assert measures.start_delay_ms(first) == 10


def test_a_start_and_a_failure_by_one_move_are_both_measured() -> None:
    both = failed(claimed(run(), at=DUE + 5), at=DUE + 900, retries=1)

    assert both.after.state is RunState.QUEUED
    assert measures.start_delay_ms(both) == 600
    assert not measures.is_end(both)


def test_a_further_try_is_no_late_start() -> None:
    again = failed(accepted(claimed(run(), at=DUE), at=DUE).after, at=DUE + 500, retries=1).after

    assert measures.start_delay_ms(accepted(claimed(again, at=60_000), at=60_000)) is None


def test_a_missed_fire_is_due_when_it_is_made_up_for() -> None:
    missed = replace(run(origin=Origin.MISFIRE), created_at=DUE + 900_000)

    start = accepted(claimed(missed, at=DUE + 900_005), at=DUE + 900_020)

    assert measures.start_delay_ms(start) == 20


def test_an_end_is_counted_once_and_timed_by_the_node() -> None:
    end = failed(accepted(claimed(run(), at=DUE), at=DUE + 10).after, at=DUE + 400)

    assert measures.is_end(end)
    assert measures.duration_ms(end) == 300


def test_a_late_result_of_a_lost_run_is_no_second_end() -> None:
    live = accepted(claimed(run(), at=DUE), at=DUE).after
    lost = moves.lost(live, RetryPolicy(retries=0, delay_ms=0), now=DUE + 60_000)

    assert measures.is_end(lost)
    assert measures.duration_ms(lost) is None
    assert not measures.is_end(failed(lost.after, at=DUE + 90_000))


def test_shards_and_tries_of_scripts_are_no_runs_of_their_own() -> None:
    shard = failed(accepted(claimed(run(fire_id=3), at=DUE), at=DUE).after, at=DUE + 400)
    tried = failed(accepted(claimed(run(origin=Origin.TRY), at=DUE), at=DUE).after, at=DUE + 400)

    assert not measures.is_end(shard)
    assert not measures.is_end(tried)
    for origin in (Origin.TRY, Origin.BACKFILL):
        start = accepted(claimed(run(origin=origin), at=DUE), at=DUE)
        assert measures.start_delay_ms(start) is None


def test_what_ended_in_the_queue_took_no_time() -> None:
    skipped = moves.skipped(run(), reason="expired", now=DUE + 9_000)

    assert measures.is_end(skipped)
    assert measures.duration_ms(skipped) is None
