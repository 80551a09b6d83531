"""Status of a run, as the API returns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ENDED = frozenset({"succeeded", "failed", "timed_out", "cancelled", "lost", "skipped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """Status of a run; `data` is everything that the API returned."""

    id: int
    job_id: int
    job: str  # name of the job
    state: (
        str  # queued, dispatched, running; succeeded, failed, timed_out, cancelled, lost, skipped
    )
    reason: str | None  # stable code: why it waits, or how it ended
    message: str | None  # text for people
    result: Any  # what the handler returned
    data: Mapping[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self.state in _ENDED

    @property
    def succeeded(self) -> bool:
        """Whether it ended successfully."""
        return self.state == "succeeded"
