"""How long runs waited for their start, or took, as a histogram that can be added up.

Quantiles of hours cannot be averaged into one of a day, but their histograms can be summed. The
bounds grow by a twelfth from one to the next, so a quantile is at most so much too high, and a
histogram of any number of runs stays below 300 numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

MAX_MS = 7 * 86_400_000  # what is longer counts as this
STEPS_PER_DOUBLING = 9

# Upper bounds in ms, rising; whole numbers one by one until the steps are wider than that.
_BOUNDS = tuple(
    sorted(
        {0, MAX_MS}
        | {
            bound
            for step in range(STEPS_PER_DOUBLING * 30)
            if (bound := round(2 ** (step / STEPS_PER_DOUBLING))) < MAX_MS
        }
    )
)
_decoder = msgspec.json.Decoder(list[tuple[int, int]])


@dataclass(frozen=True, slots=True)
class TimeHistogram:
    """Counts of runs by the bound that their time does not exceed."""

    counts: Mapping[int, int] = field(default_factory=dict)  # by bound in ms

    @classmethod
    def of(cls, times_ms: Iterable[int], *, each: int = 1) -> TimeHistogram:
        """The histogram of these times.

        Args:
            each: how many runs every one of them stands for: more than 1 for a sample.
        """
        counts: Counter[int] = Counter()
        for time_ms in times_ms:
            counts[_bound(time_ms)] += each
        return cls(counts)

    @classmethod
    def sum(cls, parts: Iterable[TimeHistogram]) -> TimeHistogram:
        """One histogram of all of them."""
        counts: Counter[int] = Counter()
        for part in parts:
            counts.update(part.counts)
        return cls(counts)

    @property
    def total(self) -> int:
        """How many runs it tells of."""
        return sum(self.counts.values())

    def quantile(self, share: float) -> int | None:
        """A time in ms that at least this share (above 0, at most 1) of the runs did not exceed.

        None when there are none.
        """
        left = share * self.total
        for bound in sorted(self.counts):
            left -= self.counts[bound]
            if left <= 1e-9:
                return bound
        return None

    def to_json(self) -> str:
        """Pairs of bound and count, bounds rising."""
        return msgspec.json.encode(sorted(self.counts.items())).decode()

    @classmethod
    def from_json(cls, text: str) -> TimeHistogram:
        """What `to_json` wrote."""
        return cls(dict(_decoder.decode(text)))


def _bound(time_ms: int) -> int:
    return _BOUNDS[bisect_left(_BOUNDS, min(max(time_ms, 0), MAX_MS))]
