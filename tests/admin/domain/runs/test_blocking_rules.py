"""Blocking decisions over many random lines: whatever the order in which runs are looked at."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import replace

import pytest

from tickwheel_admin.domain.runs.blocking import (
    Blocking,
    BlockingPolicy,
    Lanes,
    Standing,
    Verdict,
    decide,
    to_cover,
)

LINES = 400  # random lines per test


def make_run(run_id: int, **changes: object) -> Standing:
    values = {"lane": "a", "scheduled_at": run_id * 10, "started": False, "ready": True}
    return Standing(run_id=run_id, **{**values, **changes})  # type: ignore[arg-type]


class Line:
    """A line that stands still while its runs are decided, as in a claim."""

    def __init__(self, live: Sequence[Standing], waiting: Sequence[Standing]) -> None:
        self.live: dict[Hashable, list[Standing]] = {}
        self.waiting: dict[Hashable, list[Standing]] = {}
        for each in live:
            self.live.setdefault(each.lane, []).append(each)
        for each in sorted(waiting, key=lambda each: each.order):
            self.waiting.setdefault(each.lane, []).append(each)

    @property
    def lanes(self) -> Lanes:
        return Lanes(live=self.live, waiting=self.waiting)

    def decide(
        self, policy: BlockingPolicy, runs: Sequence[Standing]
    ) -> dict[Verdict, list[Standing]]:
        verdicts: dict[Verdict, list[Standing]] = {verdict: [] for verdict in Verdict}
        for each in runs:
            verdict = decide(policy, each, self.lanes)
            verdicts[verdict].append(each)
            if verdict is Verdict.START:
                self.live.setdefault(each.lane, []).append(each)
            if verdict is not Verdict.WAIT:
                self.waiting[each.lane].remove(each)
        return {verdict: sorted(found, key=by_order) for verdict, found in verdicts.items()}


def by_order(each: Standing) -> tuple[int, int]:
    return each.order


def random_line(seed: int) -> tuple[random.Random, list[Standing], list[Standing], int]:
    """(source, live runs, due runs in any order, concurrency); the live ones are the older ones."""
    source = random.Random(seed)
    concurrency = source.randint(1, 4)
    live = [make_run(n, started=True) for n in range(1, source.randint(0, concurrency + 1) + 1)]
    due = [
        make_run(100 + n, scheduled_at=10_000 + source.randint(0, 3) * 10)
        for n in range(source.randint(0, 8))
    ]
    source.shuffle(due)
    return source, live, due, concurrency


def test_parallel_runs_all_start() -> None:
    for seed in range(LINES):
        _, live, due, concurrency = random_line(seed)
        verdicts = Line(live, due).decide(BlockingPolicy(concurrency=concurrency), due)
        assert verdicts[Verdict.START] == sorted(due, key=by_order)


@pytest.mark.parametrize("strategy", [Blocking.SERIAL, Blocking.DISCARD_LATER])
def test_the_oldest_start_as_far_as_there_is_room(strategy: Blocking) -> None:
    for seed in range(LINES):
        _, live, due, concurrency = random_line(seed)
        policy = BlockingPolicy(strategy=strategy, concurrency=concurrency)

        verdicts = Line(live, due).decide(policy, due)

        free = max(0, concurrency - len(live))
        oldest = sorted(due, key=by_order)
        rest = Verdict.WAIT if strategy is Blocking.SERIAL else Verdict.DISCARDED
        assert verdicts[Verdict.START] == oldest[:free], seed
        assert verdicts[rest] == oldest[free:], seed


def test_a_limit_keeps_so_many_waiting_and_skips_the_latest() -> None:
    for seed in range(LINES):
        source, live, due, concurrency = random_line(seed)
        limit = source.randint(0, 3)
        policy = BlockingPolicy(
            strategy=Blocking.SERIAL, concurrency=concurrency, max_waiting=limit
        )

        verdicts = Line(live, due).decide(policy, due)

        free = max(0, concurrency - len(live))
        oldest = sorted(due, key=by_order)
        assert verdicts[Verdict.START] == oldest[:free], seed
        assert verdicts[Verdict.WAIT] == oldest[free : free + limit], seed
        assert verdicts[Verdict.TOO_MANY_WAITING] == oldest[free + limit :], seed


def test_the_newest_win_and_the_older_end() -> None:
    for seed in range(LINES):
        source, live, due, concurrency = random_line(seed)
        # A retry, or a missed fire that is made up for, may be older than all that is live.
        due += [make_run(n, started=source.random() < 0.5) for n in (-1, -2)]
        source.shuffle(due)
        policy = BlockingPolicy(strategy=Blocking.COVER_EARLY, concurrency=concurrency)
        line = Line(live, due)

        verdicts = line.decide(policy, due)

        newest = sorted([*live, *due], key=by_order)[-concurrency:]
        stay = sorted([*verdicts[Verdict.START], *verdicts[Verdict.WAIT]], key=by_order)
        assert stay == [each for each in newest if each in due], seed
        assert verdicts[Verdict.COVERED] == sorted(
            [each for each in due if each not in newest], key=by_order
        )
        assert len(line.live.get("a", ())) <= max(concurrency, len(live)), seed
        if verdicts[Verdict.WAIT]:
            ended = to_cover(policy, "a", line.lanes)
            assert ended == [each.run_id for each in live if each not in newest], seed
            assert len(ended) >= len(verdicts[Verdict.WAIT]), seed


def test_nobody_is_covered_for_what_is_not_due_yet() -> None:
    policy = BlockingPolicy(strategy=Blocking.COVER_EARLY)
    live, due, ahead = make_run(1, started=True), make_run(2), make_run(3, ready=False)

    assert decide(policy, due, Line([], [due, ahead]).lanes) is Verdict.START
    assert decide(policy, due, Line([live], [due, ahead]).lanes) is Verdict.WAIT
    assert to_cover(policy, "a", Line([live], [ahead]).lanes) == []


@pytest.mark.parametrize("strategy", [Blocking.SERIAL, Blocking.DISCARD_LATER])
def test_a_retry_waits_for_room_but_not_for_its_turn(strategy: Blocking) -> None:
    policy = BlockingPolicy(strategy=strategy, max_waiting=0)
    older, retry, live = make_run(1), make_run(2, started=True), make_run(3, started=True)

    assert decide(policy, retry, Line([], [older, retry]).lanes) is Verdict.START
    assert decide(policy, retry, Line([live], [retry]).lanes) is Verdict.WAIT
    # Nor does anybody wait for it: it may be due only in an hour.
    later = make_run(9)
    assert decide(policy, later, Line([], [retry, later]).lanes) is Verdict.START


def test_due_retries_and_the_oldest_others_start_in_whatever_order_they_are_looked_at() -> None:
    for seed in range(LINES):
        source, live, due, concurrency = random_line(seed)
        again = {"started": True, "tries_again": True}
        retries = [make_run(50 + n, **again) for n in range(source.randint(0, concurrency))]
        later = make_run(90, started=True)  # its next try is yet to come
        everything = [*due, *retries]
        source.shuffle(everything)
        policy = BlockingPolicy(strategy=Blocking.SERIAL, concurrency=concurrency)

        started = Line(live, [*everything, later]).decide(policy, everything)[Verdict.START]

        free = max(0, concurrency - len(live))
        others = sorted(due, key=by_order)[: max(0, free - len(retries))]
        assert [each for each in started if not each.started] == others, seed
        assert len(started) == min(free, len(everything)), seed


@pytest.mark.parametrize("strategy", [Blocking.SERIAL, Blocking.DISCARD_LATER])
def test_what_is_not_due_yet_holds_nobody_up(strategy: Blocking) -> None:
    ahead, due = make_run(1, ready=False), make_run(2)
    policy = BlockingPolicy(strategy=strategy)

    assert decide(policy, due, Line([], [ahead, due]).lanes) is Verdict.START


@pytest.mark.parametrize(
    "strategy", [Blocking.SERIAL, Blocking.DISCARD_LATER, Blocking.COVER_EARLY]
)
def test_lanes_do_not_see_each_other(strategy: Blocking) -> None:
    policy = BlockingPolicy(strategy=strategy)
    for seed in range(LINES):
        source, live, due, _ = random_line(seed)
        live = live[:1]
        mixed = [replace(each, lane=source.choice("ab")) for each in due]
        both = Line(live, mixed).decide(policy, mixed)
        for lane in "ab":
            alone = [each for each in mixed if each.lane == lane]
            expected = Line(live, alone).decide(policy, alone)
            found = {
                verdict: [each for each in runs if each.lane == lane]
                for verdict, runs in both.items()
            }
            assert found == expected, (seed, lane)
