"""How many attempts a node runs at once."""

from __future__ import annotations


class Slots:
    """A counter with a ceiling; the node refuses what finds no free slot."""

    __slots__ = ("capacity", "in_use")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0

    def take(self) -> bool:
        """Take one; False when all are taken."""
        if self.in_use >= self.capacity:
            return False
        self.in_use += 1
        return True

    def give_back(self) -> None:
        """One attempt is over."""
        self.in_use -= 1
