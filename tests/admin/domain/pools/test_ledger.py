"""Who may take slots of a pool: never more than it has, and nobody is overtaken for ever."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count

import pytest

from tickwheel_admin.domain.pools.ledger import (
    PRIORITY_MS,
    RESERVED_MS,
    PoolLedger,
    PoolStanding,
    Rank,
    Reservation,
    rank_of,
)

NOW = 1_000_000


def ledger(
    slots: int, in_use: int = 0, *, first: Reservation | None = None, shared: bool = True
) -> PoolLedger:
    standing = PoolStanding(pool_id=1, slots=slots, in_use=in_use, reservation=first, shared=shared)
    return PoolLedger(standing, now=NOW)


def noted(at: int, slots: int, *, until: int = NOW + RESERVED_MS) -> Reservation:
    return Reservation(rank=Rank(at, 7), slots=slots, until=until)


def test_a_level_of_priority_counts_as_a_minute_of_waiting() -> None:
    ranks = [
        rank_of(due_at=due_at, priority=priority, run_id=run_id)
        for run_id, (due_at, priority) in enumerate(
            [(PRIORITY_MS, 1), (0, 2), (PRIORITY_MS + 1, 1), (0, 3)]
        )
    ]
    assert sorted(ranks) == [ranks[0], ranks[1], ranks[2], ranks[3]]


@pytest.mark.parametrize(
    ("slots", "in_use", "wanted", "may"),
    [
        (3, 2, 1, True),
        (3, 3, 1, False),
        (3, 2, 2, False),
        (0, 0, 1, False),  # closed
        (2, 4, 1, False),  # it was made smaller
        (2, 0, 5, True),  # heavier than the pool is now: it takes all of it
        (2, 1, 5, False),
    ],
)
def test_a_run_starts_while_its_slots_are_free(
    slots: int, in_use: int, wanted: int, may: bool
) -> None:
    assert ledger(slots, in_use).has_room(Rank(1, 1), wanted) is may


def test_a_heavy_run_is_not_overtaken_by_light_ones_behind_it() -> None:
    book = ledger(3, 2)
    heavy, light = Rank(1, 1), Rank(2, 2)
    assert not book.has_room(heavy, 2)
    book.wait(heavy, 2)
    assert not book.has_room(light, 1)
    assert book.has_room(Rank(0, 3), 1)  # one before it


def test_a_run_starts_beside_the_first_in_line_of_another_executor() -> None:
    behind = Rank(10, 8)
    assert not ledger(3, 1, first=noted(5, 2)).has_room(behind, 1)
    assert ledger(4, 1, first=noted(5, 2)).has_room(behind, 1)
    assert ledger(3, 1, first=noted(50, 2)).has_room(behind, 1)  # that one comes later


def test_who_comes_earlier_is_noted_and_who_starts_no_longer_is() -> None:
    book = ledger(1, 1, first=noted(5, 1))
    book.wait(Rank(6, 9), 1)
    assert not book.has_changed
    book.wait(Rank(4, 9), 1)
    assert book.has_changed
    assert book.first is not None
    assert book.first.rank == Rank(4, 9)

    book = ledger(1, 0, first=noted(5, 1))
    assert book.has_room(Rank(5, 7), 1)
    book.take(Rank(5, 7), 1)
    assert (book.first, book.taken, book.free) == (None, 1, 0)


def test_a_note_is_renewed_when_half_of_its_time_is_over() -> None:
    fresh = ledger(1, 1, first=noted(5, 1))
    fresh.wait(Rank(5, 7), 1)
    assert not fresh.has_changed
    old = ledger(1, 1, first=noted(5, 1, until=NOW + 1_000))
    old.wait(Rank(5, 7), 1)
    assert old.first is not None
    assert old.first.until == NOW + RESERVED_MS


@dataclass
class Waiting:
    """A run before the pool."""

    rank: Rank
    slots: int
    executor: int
    passed_by: int = 0  # slots that runs behind it took while it was first of all


@pytest.mark.parametrize("seed", range(20))
def test_no_run_waits_for_ever_whatever_executors_claim_when(seed: int) -> None:
    """Executors claim in random order; one of them has far more runs, another only heavy ones."""
    rng, ids = random.Random(seed), count(1)
    slots = rng.randint(1, 5)
    waiting: list[Waiting] = []
    came: list[Waiting] = []  # all that ever waited
    live: list[Waiting] = []
    first: Reservation | None = None
    started: list[Rank] = []
    for step in range(600):
        now = NOW + step * 100
        for executor in (1, 1, 1, 2, 3):
            if step < 300 and rng.random() < 0.2:
                rank = rank_of(due_at=now, priority=rng.choice((1, 5, 9)), run_id=next(ids))
                weight = slots if executor == 3 else rng.randint(1, max(1, slots // 2))
                came.append(Waiting(rank, weight, executor))
                waiting.append(came[-1])
        if live and rng.random() < 0.8:
            live.pop(rng.randrange(len(live)))
        for executor in rng.sample((1, 2, 3), 3):
            if first is not None and (
                first.until <= now or all(each.rank != first.rank for each in waiting)
            ):
                first = None
            standing = PoolStanding(
                pool_id=1,
                slots=slots,
                in_use=sum(each.slots for each in live),
                reservation=first,
                shared=True,
            )
            book = PoolLedger(standing, now=now)
            for each in sorted(
                (w for w in waiting if w.executor == executor), key=lambda w: w.rank
            ):
                if book.has_room(each.rank, each.slots):
                    book.take(each.rank, each.slots)
                    waiting.remove(each)
                    live.append(each)
                    started.append(each.rank)
                    first_of_all = min(waiting, key=lambda each: each.rank, default=each)
                    if first_of_all.rank < each.rank:
                        first_of_all.passed_by += each.slots
                else:
                    book.wait(each.rank, each.slots)
            first = book.first
            assert sum(each.slots for each in live) <= slots
        # Who has become first of all is noted at the next claim of its executor: until then others
        # may fill what is free.
        assert all(each.passed_by <= 2 * slots for each in came)
    assert not waiting
    assert len(started) > 100
