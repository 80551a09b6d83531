"""Numbers of a node, for the metrics of the service that it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tickwheel_shared.protocol import Outcome, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMetrics:
    """What a node has done since it started, and what it is doing now.

    Before the start and after the end of a node, all numbers are 0 and there are no admins.
    """

    started: int = 0
    """Attempts that were accepted; rises."""
    ended: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, Outcome), 0))
    """Of these, by outcome: succeeded, failed, timed_out, cancelled, skipped, cut_off; rises."""
    ended_seconds: float = 0.0
    """How long those that have ended took, together; rises."""
    refused: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, Refusal), 0))
    """Attempts that were not started, by reason: full, draining, unknown_handler, …; rises."""
    running: int = 0
    """Attempts in flight, until their result is on disk."""
    slots: int = 0
    """How many may be; an operator can change it."""
    unreported: int = 0
    """Results in the spool that no admin has confirmed."""
    spool_works: bool = True
    """False: results cannot be written to disk, and runs are refused."""
    admins: Mapping[str, bool] = field(default_factory=dict)
    """Base URL of each known admin, and whether this node is connected to it."""
