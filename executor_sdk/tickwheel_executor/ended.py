"""What became of the attempts a node does not hold any more, for at least 15 minutes.

An attempt must start at most once, whatever arrives late or twice, and at 10,000 runs/s a quarter
of an hour is 9 million attempts. So four bits are kept for each, 64 neighbouring runs in one
integer, in generations of five minutes: some 4 bytes an attempt at high rates, where runs are
neighbours, and 250 bytes at low ones.
"""

from __future__ import annotations

from collections import deque

from tickwheel_shared.protocol import Outcome, Refusal

_GENERATION_SECONDS = 300
_GENERATIONS = 4  # three full ones are 15 minutes, and the one being filled
_ENDINGS: tuple[Outcome | Refusal, ...] = (
    *Outcome,
    *Refusal,
)  # fewer than 16: four bits, 0 is none
_CODES = {ending: code for code, ending in enumerate(_ENDINGS, start=1)}


class EndedAttempts:
    """Remembers how (run, attempt) ended. `now` is the loop's monotonic time in seconds."""

    def __init__(self) -> None:
        self._generations: deque[dict[tuple[int, int], int]] = deque([{}], maxlen=_GENERATIONS)
        self._newest_since = 0.0

    def add(self, run: int, attempt: int, ending: Outcome | Refusal, now: float) -> None:
        """This attempt has ended, or was refused and must never start."""
        self._turn(now)
        page, shift = (attempt, run >> 6), (run & 63) * 4
        newest = self._generations[-1]
        newest[page] = (newest.get(page, 0) & ~(15 << shift)) | _CODES[ending] << shift

    def find(self, run: int, attempt: int, now: float) -> Outcome | Refusal | None:
        """How it ended; None when it is unknown or forgotten."""
        self._turn(now)
        page, shift = (attempt, run >> 6), (run & 63) * 4
        for generation in reversed(self._generations):
            bits = generation.get(page)
            if bits is not None and (code := bits >> shift & 15):
                return _ENDINGS[code - 1]
        return None

    def _turn(self, now: float) -> None:
        while now - self._newest_since >= _GENERATION_SECONDS:
            if not any(self._generations):  # nothing to age: skip an idle night in one step
                self._newest_since = now
                return
            self._newest_since += _GENERATION_SECONDS
            self._generations.append({})
