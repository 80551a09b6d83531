"""What an admin tells of itself at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFigures:
    """One background loop."""

    name: str
    age_seconds: float  # since its last pass that succeeded, or since the start
    interval_seconds: float
    failing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminFigures:
    """This admin, as it is right now."""

    version: str
    name: str
    database: str  # its kind
    loops: Sequence[LoopFigures] = ()
    stalls: int = 0  # times in which the event loop went no further
    stalled_seconds: float = 0.0
    sessions: int = 0  # nodes that it can send runs to
    unrecorded: int = 0  # messages of nodes
    clock_offset_ms: int | None = None  # the database's clock less its own; None: not known yet
    certificate_expires_at: int | None = None  # UTC ms; None: it speaks plain HTTP
