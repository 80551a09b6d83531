"""What a simulated schedule brought, in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tickwheel_executor.testing.handler_end import HandlerEnd
from tickwheel_executor.testing.workflow_end import WorkflowEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """One run of a declared job or workflow. Instants are in the zone of the simulation."""

    job: str
    scheduled_at: datetime  # the instant of the schedule
    started_at: datetime | None  # of its first try; None: it never started
    ended_at: datetime
    outcome: str  # succeeded, failed, timed_out, cancelled, skipped
    # Of a run that was skipped without its handler, or cancelled: discarded, covered,
    # too_many_waiting, expired.
    reason: str | None
    interval_start: datetime | None  # the instant of its trigger before this one
    parameters: Mapping[str, Any]
    ends: tuple[HandlerEnd | WorkflowEnd, ...]  # of each try

    @property
    def succeeded(self) -> bool:
        """Whether it succeeded."""
        return self.outcome == "succeeded"

    @property
    def tries(self) -> int:
        """How often its handler was called."""
        return len(self.ends)

    @property
    def result(self) -> Any:
        """What its last try returned."""
        return self.ends[-1].result if self.ends else None

    @property
    def message(self) -> str:
        """Why its last try did not succeed, for people."""
        last = self.ends[-1] if self.ends else None
        return last.message if isinstance(last, HandlerEnd) else ""
