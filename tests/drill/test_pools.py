"""The drill of pools counts what nodes did at once."""

from __future__ import annotations

from collections import Counter

from tests.drill.pools import most_at_once
from tests.e2e.ledger import Journals, Key


def _most(spans: dict[Key, tuple[float, float | None]]) -> int:
    journals = Journals(
        starts=Counter(spans),
        ends=Counter(),
        started_at={key: start for key, (start, _) in spans.items()},
        left_at={key: end for key, (_, end) in spans.items() if end is not None},
    )
    return most_at_once(journals, {1: 1, 2: 1, 3: 2}, killed_at=5)


def test_runs_count_from_their_start_to_their_end() -> None:
    assert _most({(1, 1): (1, 2), (2, 1): (1.5, 3), (3, 1): (3, 4)}) == 2
    assert _most({(1, 1): (1, 2), (3, 1): (1.9, 4)}) == 3
    assert _most({(9, 1): (1, 9), (1, 1): (1, 2)}) == 1, "runs of others"


def test_what_was_killed_counts_until_then() -> None:
    assert _most({(1, 1): (4, None), (3, 1): (4.9, 6)}) == 3
    assert _most({(1, 1): (4, None), (1, 2): (5, 6), (2, 1): (5.5, 6)}) == 2
