"""Start delays in parts that add up, charged to whom they must be."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from tests.admin.domain.delays.histories import a_history, a_need, a_run
from tickwheel_admin.domain.delays.charging import KINDS, charge_delays
from tickwheel_admin.domain.delays.history import (
    DelayHistory,
    DelayKind,
    HistoryNode,
    HistoryRun,
)
from tickwheel_admin.domain.delays.of_run import parts_of_run
from tickwheel_admin.domain.delays.places import CLAIM_MS


def told(run: HistoryRun, history: DelayHistory) -> dict[str, tuple[int, dict[int, int]]]:
    """By kind: ms, and the ms that each run is charged."""
    return {
        part.kind.value: (part.ms, {cause.run_id: cause.ms for cause in part.causes})
        for part in parts_of_run(run, history)
    }


def test_a_wait_for_a_slot_is_charged_to_whoever_holds_it() -> None:
    late = a_run(3, 1_000, 9_000, 9_500)
    history = a_history(a_run(1, 0, 0, 4_000), a_run(2, 0, 4_000, 8_900), late)
    assert told(late, history) == {
        "slot": (7_900, {2: 4_900, 1: 3_000}),
        "claim": (100, {}),
    }


def test_moments_are_split_equally_among_those_who_hold_slots() -> None:
    late = a_run(3, 1_000, 5_000, 6_000)
    nodes = (HistoryNode(id=1, slots=2, from_at=0, until_at=None),)
    history = a_history(a_run(1, 0, 0, 5_000), a_run(2, 0, 0, 7_000), late, nodes=nodes)
    assert told(late, history) == {"slot": (4_000, {1: 2_000, 2: 2_000})}


def test_nodes_that_may_not_run_it_count_for_nothing() -> None:
    late = a_run(3, 1_000, 5_000, 6_000)
    nodes = tuple(HistoryNode(id=each, slots=1, from_at=0, until_at=None) for each in (1, 2))
    history = a_history(a_run(1, 0, 0, 5_000), a_run(2, 0, 0, 9_000, node=2), late, nodes=nodes)
    assert told(late, history) == {"slot": (4_000, {1: 4_000})}
    pinned = a_run(4, 1_000, 9_000, 9_001, node=2, pinned_node_id=2)
    history = a_history(*history.runs, pinned, nodes=nodes)
    assert told(pinned, history) == {"slot": (8_000, {2: 8_000})}


def test_runs_of_a_lane_wait_for_the_live_ones_before_them() -> None:
    lane: dict[str, Any] = {"job_id": 7, "need": 1}
    first = a_run(1, 0, 0, 4_000, **lane)
    second = a_run(2, 1_000, 4_000, 6_000, **lane)
    third = a_run(3, 2_000, 6_050, 7_000, **lane)
    nodes = (HistoryNode(id=1, slots=5, from_at=0, until_at=None),)
    needs = (a_need(), a_need(is_parallel=False))
    history = a_history(first, second, third, nodes=nodes, needs=needs)
    assert told(second, history) == {"blocked": (3_000, {1: 3_000})}
    assert told(third, history) == {"blocked": (4_000, {1: 2_000, 2: 2_000}), "claim": (50, {})}


def test_who_waits_behind_a_run_that_waits_for_a_slot_is_blocked_by_it() -> None:
    lane: dict[str, Any] = {"job_id": 7, "need": 1}
    other = a_run(9, 0, 0, 3_000)
    first, second = a_run(1, 0, 3_000, 4_000, **lane), a_run(2, 1_000, 4_000, 5_000, **lane)
    history = a_history(other, first, second, needs=(a_need(), a_need(is_parallel=False)))
    assert told(first, history) == {"slot": (3_000, {9: 3_000})}
    assert told(second, history) == {"blocked": (3_000, {1: 3_000})}


def test_a_pool_is_charged_by_the_slots_that_are_held() -> None:
    pooled: dict[str, Any] = {"pool_id": 5}
    heavy, light = a_run(1, 0, 0, 4_000, need=1, **pooled), a_run(2, 0, 0, 4_000, **pooled)
    late = a_run(3, 1_000, 4_000, 5_000, **pooled)
    nodes = (HistoryNode(id=1, slots=9, from_at=0, until_at=None),)
    needs = (a_need(), a_need(pool_slots=2))
    history = a_history(heavy, light, late, nodes=nodes, needs=needs, pools={5: 3})
    assert told(late, history) == {"pool": (3_000, {1: 2_000, 2: 1_000})}
    closed = a_history(a_run(3, 1_000, **pooled), nodes=nodes, pools={5: 0}, until_at=2_500)
    assert told(closed.runs[0], closed) == {"pool": (1_500, {})}


def test_what_nobody_caused_is_told_as_what_it_is() -> None:
    nodes = (HistoryNode(id=1, slots=1, from_at=3_000, until_at=None),)
    late = a_run(1, 1_000, 13_000, 20_000, created_at=2_000, started_at=13_070)
    assert told(late, a_history(late, nodes=nodes)) == {
        "planned_late": (1_000, {}),
        "no_node": (1_000, {}),
        "other": (10_000 - CLAIM_MS, {}),
        "claim": (CLAIM_MS, {}),
        "accept": (70, {}),
    }


def test_a_run_that_comes_while_nothing_is_waited_for_is_claimed() -> None:
    """However long the node has been idle."""
    late = a_run(1, 500_000, 500_300, 600_000)
    assert told(late, a_history(late)) == {"claim": (300, {})}


def test_only_the_time_in_question_counts() -> None:
    late = a_run(2, 1_000, 9_000, 9_500)
    history = a_history(a_run(1, 0, 0, 9_000), late, from_at=4_000, until_at=6_000)
    assert told(late, history) == {"slot": (2_000, {1: 2_000})}
    assert told(late, a_history(*history.runs, from_at=9_000)) == {}


def test_a_run_that_still_waits_is_told_of_up_to_now() -> None:
    late = a_run(2, 1_000)
    history = a_history(a_run(1, 0, 0, None), late, until_at=5_000)
    assert told(late, history) == {"slot": (4_000, {1: 4_000})}


def test_a_shard_waits_as_its_fire_did() -> None:
    lane: dict[str, Any] = {"job_id": 7, "need": 1}
    before = a_run(1, 0, 0, 3_000, **lane)
    fire = a_run(
        2, 1_000, 3_000, 9_000, has_no_node=True, is_measured=False, shard_index=-1, node=0, **lane
    )
    shard = a_run(3, 1_000, 3_400, 9_000, created_at=3_000, fire_id=2, **lane)
    nodes = (HistoryNode(id=1, slots=5, from_at=0, until_at=None),)
    history = a_history(
        before, fire, shard, nodes=nodes, needs=(a_need(), a_need(is_parallel=False))
    )
    assert {kind: ms for kind, (ms, _) in told(shard, history).items()} == {
        "blocked": 2_000,
        "claim": 400,
    }


class _ByTheMoment:
    """The same rules moment by moment, as slowly as they are said."""

    def __init__(self, history: DelayHistory) -> None:
        self.history = history
        self.parts: defaultdict[int, defaultdict[DelayKind, int]] = defaultdict(
            lambda: defaultdict(int)
        )
        self.charges: defaultdict[tuple[int, int], float] = defaultdict(float)
        for at in range(history.from_at, history.until_at):
            self._moment(at)

    def _live(self, run: HistoryRun, at: int) -> bool:
        return any(
            each.from_at <= at and (each.until_at is None or at < each.until_at)
            for each in run.holds
        )

    def _queued(self, run: HistoryRun, at: int) -> bool:
        claimed = run.dispatched_at
        return run.created_at <= at and (claimed is None or at < claimed)

    def _moment(self, at: int) -> None:
        history = self.history
        live = [run for run in history.runs if self._live(run, at)]
        there = {n.id: n.slots for n in history.nodes if n.from_at <= at}
        for run in history.runs:
            if run.due_at > at or (run.started_at is not None and at >= run.started_at):
                continue
            if at < run.created_at:
                self.parts[run.id][DelayKind.PLANNED_LATE] += 1
                continue
            if not self._queued(run, at):
                self.parts[run.id][DelayKind.ACCEPT] += 1
                continue
            kind, whom = self._why(run, live, there, at)
            self.parts[run.id][kind] += 1
            for each, weight in whom.items():
                self.charges[run.id, each] += weight / sum(whom.values())

    def _why(
        self, run: HistoryRun, live: list[HistoryRun], there: dict[int, int], at: int
    ) -> tuple[DelayKind, dict[int, int]]:
        need = self.history.needs[run.need]
        if not need.is_parallel:
            of_job = [each for each in live if each.job_id == run.job_id]
            before = [
                each
                for each in self.history.runs
                if each.job_id == run.job_id
                and (each.scheduled_at, each.id) < (run.scheduled_at, run.id)
                and each.due_at <= at
                and self._queued(each, at)
            ]
            if len(of_job) + len(before) >= need.concurrency:
                return DelayKind.BLOCKED, {}
        nodes = [each for each in need.nodes if each in there]
        if not nodes:
            return DelayKind.NO_NODE, {}
        used: defaultdict[int, int] = defaultdict(int)
        for each in live:
            used[each.holds[0].node_id] += 1
        if all(used[each] >= there[each] for each in nodes):
            return DelayKind.SLOT, {e.id: 1 for e in live if e.holds[0].node_id in need.nodes}
        if run.pool_id is not None:
            held = {
                e.id: self.history.needs[e.need].pool_slots for e in live if e.pool_id is not None
            }
            if sum(held.values()) + need.pool_slots > self.history.pools[run.pool_id]:
                return DelayKind.POOL, held
        return DelayKind.CLAIM, {}


@pytest.mark.parametrize("seed", range(40))
def test_the_sweep_says_what_the_rules_say_moment_by_moment(seed: int) -> None:
    chance = random.Random(seed)
    needs = tuple(
        a_need(
            nodes=nodes,
            is_parallel=chance.random() < 0.6,
            concurrency=chance.randint(1, 2),
            pool_slots=chance.randint(1, 2),
        )
        for nodes in ((1,), (1, 2), (2, 3), (9,), (3,))
    )
    nodes = tuple(
        HistoryNode(id=n, slots=chance.randint(1, 2), from_at=chance.randint(0, 20), until_at=None)
        for n in (1, 2, 3)
    )
    runs = []
    for run_id in range(1, 40):
        due_at = chance.randint(0, 90)
        created_at = due_at + chance.choice((0, 0, 3))
        claimed_at = created_at + chance.choice((0, 1, 5, 30))
        need = chance.randrange(5)
        ended_at = chance.choice((claimed_at + chance.randint(2, 40), None))
        runs.append(
            a_run(
                run_id, due_at, claimed_at, ended_at, node=chance.choice(needs[need].nodes),
                need=need, job_id=need, created_at=created_at,
                started_at=claimed_at + chance.choice((0, 2)), pool_id=chance.choice((None, 5)),
            )
        )  # fmt: skip
    history = a_history(
        *runs, needs=needs, nodes=nodes, pools={5: 3}, from_at=chance.randint(0, 10), until_at=120
    )
    slowly = _ByTheMoment(history)
    rows = {run.id: place for place, run in enumerate(runs)}
    found = charge_delays(history, rows, count=len(rows))
    said = {
        run_id: {kind: ms for kind, ms in zip(KINDS, parts, strict=True) if ms}
        for run_id, parts in found.parts.items()
        if sum(parts)
    }
    assert said == {run_id: dict(kinds) for run_id, kinds in slowly.parts.items()}
    charged: defaultdict[tuple[int, int], float] = defaultdict(float)
    for charges in (found.of_nodes, found.of_pools):
        for (row, whom), ms in charges.items():
            charged[runs[row].id, whom] += ms
    assert charged.keys() == slowly.charges.keys()
    for key, ms in slowly.charges.items():
        assert charged[key] == pytest.approx(ms)
