"""Outcomes of the attempts that ended on a node, for at least 15 minutes.

An attempt must start at most once, even if messages arrive late or twice. At 10,000 runs/s,
15 minutes are 9 million attempts. So each takes 16 bits, with 64 neighbouring runs in one integer,
in generations of five minutes: about 4 bytes per attempt at high rates, where runs are neighbours,
20 if this node gets every fourth run, and 200 at low rates.

Four bits are the outcome, twelve a hash of the claim's token: after a restored backup the same
attempt may be claimed again, and the outcome of the old claim must not be reported for the new one.
One time in 4,096 the hashes are equal, and it is.
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
    """Remembers the outcomes of claims. `now` is the loop's monotonic time in seconds."""

    def __init__(self) -> None:
        self._generations: deque[dict[Key, int]] = deque([{}], maxlen=_GENERATIONS)
        self._newest_since = 0.0

    def add(self, claim: Claim, ending: Outcome | Refusal, now: float) -> None:
        """This claim has ended, or was refused: its attempt must never start."""
        self._turn(now)
        run, attempt, token = claim
        self._put(run, attempt, _CODES[ending] | _hash(token) << 4)

    def find(self, claim: Claim, now: float) -> Outcome | Refusal | None:
        """Its outcome; None if it is unknown or forgotten, or belongs to another claim."""
        self._turn(now)
        run, attempt, token = claim
        bits = self._get(run, attempt)
        return _ENDINGS[(bits & 15) - 1] if bits and bits >> 4 == _hash(token) else None

    def renew(self, key: Key, now: float) -> bool:
        """Whether any claim of the attempt has ended; if so, remember it for another 15 minutes."""
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
