"""Histograms as Prometheus reads them: how many values do not exceed each of some bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

# Seconds, each bound two to three times the one before; the last of all is infinity.
DELAY_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)
DURATION_BOUNDS = (0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
TRANSACTION_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
BATCH_BOUNDS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)


@dataclass(slots=True)
class Histogram:
    """Counts values by the lowest bound that they do not exceed."""

    bounds: Sequence[float]
    counts: list[int] = field(init=False)  # one for each bound, and one for what exceeds them all
    total: float = 0.0  # of the values

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def merge(self, other: Histogram) -> None:
        """Count the values of another one with the same bounds."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def copy(self) -> Histogram:
        """The same counts, which change no more with these."""
        copied = Histogram(self.bounds)
        copied.merge(self)
        return copied

    def up_to_bounds(self) -> list[int]:
        """How many values do not exceed each bound; the last one is the count of all."""
        return [*accumulate(self.counts)]
