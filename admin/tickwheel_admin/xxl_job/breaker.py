"""How many runs a node is given while the calls that start runs go unanswered there.

A node that hangs answers beats and looks healthy: it has free slots, and each run that is placed
there waits for its call in vain, is handed back, and is placed there again. With thousands of runs
due, that costs more than all runs that do run.
"""

from __future__ import annotations

from collections.abc import Callable

# One call may get lost, and busy nodes are slow now and then. After so many in a row it hangs.
HANGS_AFTER = 3
REST_SECONDS = 5.0  # of a node that hangs, before it is given runs again
TRIED_AT_ONCE = 2  # runs of a node whose last call went unanswered


class CircuitBreaker:
    """Of one node. Instants are seconds of the running loop."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when the node is limited, and when it is not any more."""
        self._changed = changed
        self._unanswered = 0  # calls in a row
        self._rests_until = 0.0

    @property
    def is_closed(self) -> bool:
        """Whether nothing limits the node."""
        return self._unanswered == 0

    def answered(self) -> None:
        """A call that starts a run was answered, whatever with."""
        if self._unanswered:
            self._unanswered = 0
            self._changed()

    def unanswered(self, now: float) -> None:
        """One was not."""
        self._unanswered += 1
        if self._unanswered >= HANGS_AFTER:
            self._rests_until = now + REST_SECONDS
        if self._unanswered == 1:
            self._changed()

    def room(self, now: float, under_way: int) -> int | None:
        """How many runs the node may be given now besides those under way; None: any number."""
        if self.is_closed:
            return None
        if now < self._rests_until:
            return 0
        return max(TRIED_AT_ONCE - under_way, 0)
