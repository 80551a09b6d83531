"""What became of the attempts that a node was asked for, counted since its start."""

from __future__ import annotations

from tickwheel_shared.protocol import Outcome, Refusal


class AttemptCounts:
    """Written on the node's loop; threads may read it at any time."""

    __slots__ = ("ended", "refused", "seconds", "started")

    def __init__(self) -> None:
        self.started = 0
        self.seconds = 0.0  # that those that have ended took, together
        # With every key from the start: a reader sees 0, and never a dict that grows.
        self.ended: dict[Outcome, int] = dict.fromkeys(Outcome, 0)
        self.refused: dict[Refusal, int] = dict.fromkeys(Refusal, 0)
