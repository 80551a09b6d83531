"""A run of a simulated schedule that has not ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tickwheel_executor.testing.handler_end import HandlerEnd
from tickwheel_executor.testing.workflow_end import WorkflowEnd

from .job_plan import JobPlan, Standing, TriggerPlan, standing


@dataclass(slots=True, kw_only=True, eq=False)
class LiveRun:
    """Instants are UTC epoch ms."""

    id: int
    job: JobPlan
    trigger: TriggerPlan
    scheduled_at: int
    due_at: int
    interval_start: int | None
    parameters: str  # JSON of an object
    started_at: int | None = None
    is_running: bool = False
    is_ready: bool = False  # due, or its next try is
    checkpoint: Any = None
    ends: list[HandlerEnd | WorkflowEnd] = field(default_factory=list)

    @property
    def standing(self) -> Standing:
        """As the rules of blocking see it."""
        started = self.started_at is not None
        return standing(
            self.id,
            self.scheduled_at,
            started=started,
            ready=self.is_ready,
            tries_again=started and self.is_ready,
        )
