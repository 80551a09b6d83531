"""How a run stands, as a client is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ENDED = frozenset({"succeeded", "failed", "timed_out", "cancelled", "lost", "skipped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """How a run stands; everything that the API says of it is in `data`."""

    id: int
    job_id: int
    job: str  # name of the job
    state: (
        str  # queued, dispatched, running; succeeded, failed, timed_out, cancelled, lost, skipped
    )
    reason: str | None  # stable code: why it waits, or ended so
    message: str | None  # text for people
    result: Any  # what the handler returned
    data: Mapping[str, Any]

    @property
    def has_ended(self) -> bool:
        """Whether it has come to an end, good or bad."""
        return self.state in _ENDED

    @property
    def succeeded(self) -> bool:
        """Whether it has ended well."""
        return self.state == "succeeded"
