"""A trigger: when a job fires."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TriggerKind(StrEnum):
    """Which fields of a schedule count. A job without triggers fires by hand or API only."""

    CRON = "cron"  # expression, dialect, timezone
    FIXED_RATE = "fixed_rate"  # every_ms, anchor_at
    ONCE = "once"  # at
    FIXED_DELAY = "fixed_delay"  # every_ms after the end of the run before; the first when saved


class TriggerState(StrEnum):
    """Whether a trigger will fire again."""

    ACTIVE = "active"
    COMPLETE = "complete"  # it has no further fire
    ERROR = "error"  # its schedule cannot be computed; `reason` says why


class MisfirePolicy(StrEnum):
    """What happens with fires that could not be planned within the threshold."""

    FIRE_ONCE = "fire_once"  # one run now, for the latest missed instant
    SKIP = "skip"  # one skipped run that says how many were missed
    FIRE_ALL = "fire_all"  # a run for each, oldest first; beyond the latest 1,000 as with skip


MISFIRE_THRESHOLD_MS = 5_000
MAX_CATCH_UP = 1_000
MIN_EVERY_MS = 100
MAX_EVERY_MS = 366 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSpec:
    """What a person says about a trigger; stored as JSON and compared as a whole."""

    kind: TriggerKind
    expression: str | None = None  # cron
    dialect: str | None = None  # cron: "unix"
    timezone: str | None = None  # cron: IANA name
    every_ms: int | None = None  # fixed_rate, fixed_delay
    anchor_at: int | None = None  # fixed_rate: fires at anchor + k * every; None: when saved
    at: int | None = None  # once
    misfire: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    misfire_threshold_ms: int = MISFIRE_THRESHOLD_MS  # 1,000..86,400,000
    catch_up_limit: int = MAX_CATCH_UP  # 1..1,000, fire_all: the latest so many missed fires run


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
