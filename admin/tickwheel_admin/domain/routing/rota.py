"""Whose turn it is among nodes of different weights."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from math import gcd

MAX_TABLE = 10_000  # turns that are worked out beforehand
_GOLDEN = 0.618_033_988_749_895


class Rota:
    """Turns that repeat: in as many as the weights add up to, each has as many as its weight."""

    def __init__(self, weights: tuple[int, ...]) -> None:
        """Share the turns out.

        Args:
            weights: at least one, each at least 1; what all can be divided by makes no difference.
        """
        divisor = gcd(*weights)
        reduced = [weight // divisor for weight in weights]
        self._ends = list(accumulate(reduced))
        self._total = self._ends[-1]
        self._table = _table(reduced) if self._total <= MAX_TABLE else None
        self._stride = _stride(self._total)

    def place(self, turn: int) -> int:
        """The place in `weights` of whose turn it is."""
        if self._table is not None:
            return self._table[turn % self._total]
        return bisect_right(self._ends, turn * self._stride % self._total)


@lru_cache(maxsize=64)  # for as long as the same nodes are live
def rota_of(weights: tuple[int, ...]) -> Rota:
    """The rota of these weights."""
    return Rota(weights)


def _table(weights: list[int]) -> array[int]:
    """Everybody's turns lie evenly: the n-th of w at (n + 1/2) / w of the way round."""
    turns = [
        ((2 * number + 1) / (2 * weight), place)
        for place, weight in enumerate(weights)
        for number in range(weight)
    ]
    return array("L", [place for _, place in sorted(turns)])


def _stride(total: int) -> int:
    """How far turns lie apart on the way round when there are too many to be laid out one by one.

    Near the golden section, so that neighbours come up far from each other, and without a common
    divisor, so that each number below the total comes up once.
    """
    stride = max(1, round(total * _GOLDEN))
    while gcd(stride, total) != 1:
        stride += 1
    return stride
