"""How many attempts a node runs at once."""

from __future__ import annotations

import logging

_logger = logging.getLogger("tickwheel.node")


class Slots:
    """A counter with a limit; the node refuses attempts when no slot is free.

    `configured` is the limit that the service was started with; an operator may set another one.
    """

    __slots__ = ("_configured", "capacity", "in_use")

    def __init__(self, configured: int) -> None:
        self._configured = configured
        self.capacity = configured
        self.in_use = 0

    def resize(self, capacity: int | None) -> None:
        """Change the limit, None: as configured. Running attempts above a lower limit continue."""
        capacity = self._configured if capacity is None else capacity
        if capacity != self.capacity:
            _logger.info(
                "this node has %d slots now, as an operator wants; it had %d",
                capacity,
                self.capacity,
            )
        self.capacity = capacity

    def take(self) -> bool:
        """Take one; False when all are taken."""
        if self.in_use >= self.capacity:
            return False
        self.in_use += 1
        return True

    def give_back(self) -> None:
        """One attempt is over."""
        self.in_use -= 1
