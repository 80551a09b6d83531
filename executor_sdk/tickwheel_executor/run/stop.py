"""Why an attempt was told to end before its handler did."""

from __future__ import annotations

from dataclasses import dataclass

from tickwheel_shared.protocol import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """What will be reported of it, whatever the handler does now."""

    outcome: Outcome
    message: str
    grace_seconds: float = 5.0  # for the handler to clean up, before its process is killed
