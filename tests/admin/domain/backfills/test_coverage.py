"""What became of intervals, by the runs that work for parts of them."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tickwheel_admin.domain.backfills.coverage import (
    MAX_RUNS_OF_SEGMENT,
    Horizon,
    IntervalRun,
    IntervalState,
    covered,
    segments_of,
)
from tickwheel_admin.domain.backfills.instants import DueInstant
from tickwheel_admin.domain.runs.run import RunState

S, F, Q, R, K = (
    RunState.SUCCEEDED, RunState.FAILED, RunState.QUEUED, RunState.RUNNING, RunState.SKIPPED,
)  # fmt: skip
State = IntervalState
KNOWN = Horizon()


def run(number: int, start: int | None, at: int, state: RunState = S) -> IntervalRun:
    reason = "overlap" if state is K else None
    return IntervalRun(run_id=number, start_at=start, at=at, state=state, reason=reason)


@pytest.mark.parametrize(
    ("runs", "state", "ids"),
    [
        ([], State.NO_RUN, ()),
        ([run(1, 10, 20)], State.DONE, (1,)),
        ([run(1, None, 20)], State.DONE, (1,)),  # it was told no beginning
        ([run(1, None, 15)], State.NO_RUN, ()),  # of no instant of this schedule
        ([run(1, 10, 20, F), run(2, 10, 20)], State.DONE, (2,)),
        ([run(1, 10, 15), run(2, 15, 20)], State.DONE, (2, 1)),
        ([run(1, 0, 40)], State.DONE, (1,)),
        ([run(1, 10, 20), run(2, 10, 20)], State.TWICE, (2, 1)),
        ([run(1, 10, 16), run(2, 15, 20)], State.TWICE, (2, 1)),
        ([run(1, 10, 15)], State.PARTLY, (1,)),
        ([run(1, 10, 15), run(2, 10, 20, Q)], State.WAITING, (2,)),
        ([run(1, 10, 20), run(2, 10, 20, R)], State.DONE, (1,)),
        ([run(1, 10, 20, F), run(2, 10, 20, R)], State.RUNNING, (2,)),
        ([run(1, 10, 20, F), run(2, 10, 20, K)], State.FAILED, (1,)),
        ([run(1, 10, 20, K)], State.SKIPPED, (1,)),
        ([run(1, 0, 10), run(2, 20, 30)], State.NO_RUN, ()),  # its neighbours
    ],
)
def test_an_interval(runs: list[IntervalRun], state: State, ids: tuple[int, ...]) -> None:
    (found,) = covered([DueInstant(20, 10)], runs, KNOWN)
    assert (found.state, found.run_ids) == (state, ids)
    assert found.reason == ("overlap" if state is State.SKIPPED else None)


def test_the_first_instant_of_a_schedule_has_but_its_end() -> None:
    assert covered([DueInstant(20, None)], [run(1, None, 20)], KNOWN)[0].state is State.DONE
    assert covered([DueInstant(20, None)], [run(1, 10, 20)], KNOWN)[0].state is State.DONE


def test_what_may_be_deleted_is_no_hole_and_what_is_known_is_told() -> None:
    instants = [DueInstant(at, at - 10) for at in (20, 30, 40, 50)]
    runs = [run(1, 20, 30), run(2, 40, 50, F)]
    horizon = Horizon(kept_from=35, purged=[(50, 60)])
    assert [each.state for each in covered(instants, runs, horizon)] == [
        State.UNKNOWN, State.DONE, State.NO_RUN, State.UNKNOWN,
    ]  # fmt: skip


def test_states_agree_with_counting_each_moment() -> None:
    """Intervals and runs of any widths, against how often each unit of time was done."""
    for seed in range(200):
        chance = random.Random(seed)
        cuts = sorted(chance.sample(range(60), 8))
        instants = [DueInstant(at, before) for before, at in pairwise(cuts)]
        chance.shuffle(instants)
        runs = []
        for number in range(1, chance.randrange(2, 10)):
            low = chance.randrange(59)
            runs.append(run(number, low, chance.randrange(low + 1, 61), chance.choice((S, F))))
        times = [
            sum((r.start_at or 0) <= t < r.at for r in runs if r.state is S) for t in range(60)
        ]
        for each in covered(instants, runs, KNOWN):
            within = times[each.start_at : each.at]
            assert (each.state is State.TWICE) == (max(within) > 1), seed
            assert (each.state is State.DONE) == (set(within) == {1}), seed
            assert (each.state is State.PARTLY) == (set(within) == {0, 1}), seed


def test_alike_intervals_are_one_segment_with_a_few_of_their_runs() -> None:
    instants = [DueInstant(at, at - 10) for at in range(20, 420, 10)]
    runs = [run(at, at - 10, at) for at in range(20, 320, 10)]
    first, second = segments_of(covered(instants, runs, KNOWN))
    assert (first.start_at, first.first_at, first.last_at, first.intervals) == (10, 20, 310, 30)
    assert len(first.run_ids) == MAX_RUNS_OF_SEGMENT
    assert (second.state, second.intervals) == (State.NO_RUN, 10)
