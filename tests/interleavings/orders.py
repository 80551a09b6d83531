"""In which order actors get the baton; drawn from a seed, so that it can be drawn again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol

STAY_SHARES = (0.0, 0.5, 0.9)  # how likely an actor keeps the baton
HELD_UP_SHARE = 0.7  # of actors that are held up once
HELD_UP_WITHIN = (10, 20, 40)  # so at one of their first so many steps; one is drawn a play


class Order(Protocol):
    """Decides who is next."""

    def choose(self, ready: Sequence[int]) -> int:
        """Which of the actors that want the baton gets it, as a position in `ready`.

        Args:
            ready: their numbers, rising and never empty.
        """
        ...


def an_order(random: Random) -> Order:
    """One of the two kinds."""
    return Wandering(random) if random.random() < 0.5 else HoldingUp(random)


class Wandering:
    """The baton goes to anybody; now and then an actor keeps it for a while."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._stay = random.choice(STAY_SHARES)
        self._last = -1

    def choose(self, ready: Sequence[int]) -> int:
        if self._last not in ready or self._random.random() >= self._stay:
            self._last = self._random.choice(ready)
        return ready.index(self._last)


class HoldingUp:
    """One actor after the other, but some are held up at one step until all others are through.

    This soon finds what happens only when somebody sleeps at the worst moment. After Burckhardt et
    al., "A randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._rank: dict[int, float] = {}
        self._steps: dict[int, int] = {}
        self._held_up_at: dict[int, int] = {}
        self._within = random.choice(HELD_UP_WITHIN)

    def choose(self, ready: Sequence[int]) -> int:
        for actor in ready:
            if actor not in self._rank:
                self._rank[actor] = self._random.random()
                self._steps[actor] = 0
                held_up = self._random.random() < HELD_UP_SHARE
                self._held_up_at[actor] = self._random.randint(2, self._within) * held_up
        while True:
            chosen = max(ready, key=self._rank.__getitem__)
            self._steps[chosen] += 1
            if self._steps[chosen] != self._held_up_at[chosen]:
                return ready.index(chosen)
            self._rank[chosen] -= 1
