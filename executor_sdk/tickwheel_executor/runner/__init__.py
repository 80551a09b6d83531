"""Ways to execute a handler: on the event loop, in a thread or in a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tickwheel_executor.run.outcome import AttemptOutcome


class Execution(Protocol):
    """A handler that was started. Its runner reports the outcome exactly once, on the loop."""

    @property
    def has_ended(self) -> bool:
        """Whether the handler has ended, even if that is not reported yet."""

    def stop(self) -> str:
        """Stop it as far as possible; returns a line for the run's log, or ""."""

    def abandon(self) -> None:
        """The node has ended: cancel it if possible, and do not report its end."""


# Called on the event loop when a handler has ended.
OnEnd = Callable[[AttemptOutcome], None]
# Called before each step of an async handler; True: this call told it to end.
MustStop = Callable[[], bool]
