"""A job: what to run, and how."""

from __future__ import annotations

from dataclasses import dataclass, field

from tickwheel_admin.domain.routing import Routing
from tickwheel_admin.domain.run import RetryPolicy
from tickwheel_admin.domain.trigger import TriggerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConfig:
    """Everything a revision of a job says; immutable once stored, and what a run keeps."""

    name: str  # 1..200 characters, unique within its executor
    handler: str  # name of a handler that the executor's nodes register
    description: str = ""
    owner: str = ""
    tags: tuple[str, ...] = ()
    parameters: str = "{}"  # text of a JSON object, <= 64 KiB
    routing: Routing = Routing.ROUND_ROBIN
    priority: int = 5  # 1..9, smaller is claimed first
    timeout_ms: int | None = None  # 1,000..604,800,000; None: no limit
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    triggers: tuple[TriggerSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job with its current configuration."""

    id: int
    executor_id: int
    revision: int  # rises with every edit; an edit must name the one it was made from
    config: JobConfig
    paused: bool
    created_at: int
    updated_at: int
