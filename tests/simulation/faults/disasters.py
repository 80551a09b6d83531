"""What every part of the chaos needs: a source of chance, a way to end things, and a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.simulation.faults.troubles import Troubles
from tests.simulation.history import History
from tests.simulation.scheduler import SimLoop

# Name → (weight in a storm of short faults, weight in a siege of long ones, what it does).
Actions = Mapping[str, tuple[int, int, Callable[[], None]]]


class Disasters:
    """Shared by all parts of the chaos."""

    def __init__(self, loop: SimLoop, random: Random, history: History, troubles: Troubles) -> None:
        self.random = random
        self.troubles = troubles
        self.is_over = False
        self._loop = loop
        self._history = history

    def later(self, low: float, high: float, action: Callable[[], None]) -> None:
        """Do something after some seconds, unless everything was healed before."""

        def unless_over() -> None:
            if not self.is_over:
                action()

        self._loop.world_later(self.random.uniform(low, high), unless_over)

    def note(self, what: str) -> None:
        self._history.note("chaos", what)
