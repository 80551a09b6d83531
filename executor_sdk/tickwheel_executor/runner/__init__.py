"""Ways to execute a handler: on the event loop or in a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tickwheel_executor.run.outcome import AttemptOutcome


class Execution(Protocol):
    """A handler that was started. Its runner reports the outcome exactly once, on the loop."""

    @property
    def has_ended(self) -> bool:
        """Whether the handler is through, even if that was not reported yet."""

    def stop(self) -> str:
        """Ask it to end, as strongly as is possible; returns a line for the run's log, or ""."""

    def abandon(self) -> None:
        """The node is gone: cancel what can be cancelled; nobody waits for the end."""


# Called on the event loop when a handler has ended.
OnEnd = Callable[[AttemptOutcome], None]
# Called before each step of an async handler; True: it was told to end by this very call.
MustStop = Callable[[], bool]
