"""A hash ring: each key belongs to a name, and keeps it while other names come and go.

Every name stands at POINTS places of a circle; a key belongs to the first name at or after its own
place. So a name that joins takes about 1/n of the keys, each from whoever had it, and one that
leaves gives its keys to those behind it. Nothing else moves.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b

import msgspec

POINTS = 128  # of each name: shares differ by about 9 %
_OWNER_BITS = 20  # low bits of a point say whose it is; the other 44 where it stands
_POINT_BYTES = 8
_DIGEST_BYTES = 64


class HashRing:
    """The circle of some names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """Place the names, at most a million, each once."""
        self._names = names
        points = [
            place << _OWNER_BITS | owner
            for owner, name in enumerate(names)
            for place in _places(name)
        ]
        points.sort()
        self._points = array("Q", points)  # a list would take five times the memory

    def owners(self, key: str) -> Iterator[str]:
        """The name that the key belongs to, then those that stand in for it, each once."""
        digest = blake2b(key.encode(), digest_size=_POINT_BYTES).digest()
        start = bisect_left(
            self._points, int.from_bytes(digest, "big") >> _OWNER_BITS << _OWNER_BITS
        )
        told: set[int] = set()
        mask = (1 << _OWNER_BITS) - 1
        for step in range(len(self._points)):
            owner = self._points[(start + step) % len(self._points)] & mask
            if owner not in told:
                told.add(owner)
                yield self._names[owner]
                if len(told) == len(self._names):
                    return


@lru_cache(maxsize=32)  # for as long as the same nodes are live
def ring_of(names: tuple[str, ...]) -> HashRing:
    """The ring of these names, sorted and each once."""
    return HashRing(names)


@lru_cache(maxsize=4_096)
def _places(name: str) -> tuple[int, ...]:
    """Where a name stands; the same in every ring."""
    digests = b"".join(
        blake2b(name.encode(), digest_size=_DIGEST_BYTES, salt=part.to_bytes(2, "big")).digest()
        for part in range(POINTS * _POINT_BYTES // _DIGEST_BYTES)
    )
    places = (
        int.from_bytes(digests[at : at + _POINT_BYTES], "big") >> _OWNER_BITS
        for at in range(0, len(digests), _POINT_BYTES)
    )
    return tuple(sorted(places))  # what is sorted in parts is sorted sooner


_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def value_to_hash(parameters: str, name: str) -> str | None:
    """The JSON text of one of a run's parameters, equal for equal values; None: it has none."""
    raw = _decode_object(parameters).get(name)
    if raw is None:
        return None
    # The value alone is read in full: what a person wrote in another order is the same value.
    try:
        return json.dumps(
            json.loads(bytes(raw)), ensure_ascii=False, sort_keys=True, separators=(",", ":")
        )
    except (ValueError, RecursionError):
        # A parent's result may hold what Python does not read, such as a number of 5,000 digits. A
        # claim that fails would hold up all others.
        return bytes(raw).decode()
