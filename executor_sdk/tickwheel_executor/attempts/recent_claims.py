"""What became of the attempts a node does not hold any more, for at least 15 minutes.

An attempt must start at most once, whatever arrives late or twice, and at 10,000 runs/s a quarter
of an hour is 9 million attempts. So 16 bits are kept for each, 64 neighbouring runs in one integer,
in generations of five minutes: some 4 bytes an attempt at high rates, where runs are neighbours, 20
where this node gets every fourth, and 200 at low rates.

Four bits say how it ended, twelve are a hash of the claim's token: after a restored backup the same
attempt may be claimed anew, and to answer for the new claim what became of the old one would be to
say that work was done which nobody did (one time in 4,096 it still is).
"""

from __future__ import annotations

import zlib
from collections import deque

from tickwheel_executor.attempt_key import Claim, Key
from tickwheel_shared.protocol import Outcome, Refusal

_GENERATION_SECONDS = 300
_GENERATIONS = 4  # three full ones are 15 minutes, and the one being filled
_PAGE_BITS = 6  # 64 runs a page
_BITS = 16  # of one attempt; all zero: none
_MASK = (1 << _BITS) - 1
# Fewer than 16: four bits, and 0 is none.
_ENDINGS: tuple[Outcome | Refusal, ...] = (*Outcome, *Refusal)
_CODES = {ending: code for code, ending in enumerate(_ENDINGS, start=1)}


class RecentClaims:
    """Remembers how claims of attempts ended. `now` is the loop's monotonic time in seconds."""

    def __init__(self) -> None:
        self._generations: deque[dict[Key, int]] = deque([{}], maxlen=_GENERATIONS)
        self._newest_since = 0.0

    def add(self, claim: Claim, ending: Outcome | Refusal, now: float) -> None:
        """This claim has ended, or was refused: its attempt must never start."""
        self._turn(now)
        run, attempt, token = claim
        self._put(run, attempt, _CODES[ending] | _hash(token) << 4)

    def find(self, claim: Claim, now: float) -> Outcome | Refusal | None:
        """How it ended; None when it is unknown, forgotten, or another claim of the attempt is."""
        self._turn(now)
        run, attempt, token = claim
        bits = self._get(run, attempt)
        return _ENDINGS[(bits & 15) - 1] if bits and bits >> 4 == _hash(token) else None

    def renew(self, key: Key, now: float) -> bool:
        """Whether any claim of the attempt has ended; if so, remember it for as long again."""
        self._turn(now)
        bits = self._get(*key)
        if bits:
            self._put(*key, bits)
        return bool(bits)

    def _put(self, run: int, attempt: int, bits: int) -> None:
        page, shift = (attempt, run >> _PAGE_BITS), _shift(run)
        newest = self._generations[-1]
        newest[page] = (newest.get(page, 0) & ~(_MASK << shift)) | bits << shift

    def _get(self, run: int, attempt: int) -> int:
        page = attempt, run >> _PAGE_BITS
        for generation in reversed(self._generations):
            bits = generation.get(page)
            if bits is not None and (bits := bits >> _shift(run) & _MASK):
                return bits
        return 0

    def _turn(self, now: float) -> None:
        while now - self._newest_since >= _GENERATION_SECONDS:
            if not any(self._generations):  # nothing to age: skip an idle night in one step
                self._newest_since = now
                return
            self._newest_since += _GENERATION_SECONDS
            self._generations.append({})


def _shift(run: int) -> int:
    return (run & ((1 << _PAGE_BITS) - 1)) * _BITS


def _hash(token: str) -> int:
    """Twelve bits that are the same in every process."""
    return zlib.crc32(token.encode()) & 0xFFF
