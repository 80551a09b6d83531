"""A trigger as it is stored: its specification, and how far it is planned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tickwheel_admin.domain.triggers.spec import TriggerSpec


class TriggerState(StrEnum):
    """Whether a trigger will fire again."""

    ACTIVE = "active"
    COMPLETE = "complete"  # it has no further fire
    ERROR = "error"  # its schedule cannot be computed; `reason` says why


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A stored trigger."""

    id: int
    job_id: int
    executor_id: int
    bucket: int
    spec: TriggerSpec
    paused: bool
    state: TriggerState
    reason: str | None  # text for people when state is error
    next_fire_at: int | None  # None: paused (it or its job), complete or error
    last_fire_at: int | None  # last planned nominal instant
    version: int
    fires: int = 0  # runs planned so far; summaries of missed fires are none
    calendar_version: int | None = None  # with which next_fire_at was computed; None: no calendar
