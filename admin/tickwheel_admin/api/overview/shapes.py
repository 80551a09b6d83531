"""The shape of what needs attention."""

from __future__ import annotations

from typing import Annotated, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity


class AlarmOfConcernJson(TypedDict):
    """An open alarm about the same matter."""

    id: int
    kind: AlarmKind
    since: Instant | None
    acknowledged_at: Instant | None
    acknowledged_by: str | None
    assigned_to: str | None
    muted_until: Instant | None


class ConcernJson(TypedDict):
    """What somebody should look at."""

    kind: AlarmKind
    severity: Severity
    message: str
    since: Annotated[Instant | None, doc("When it began; null: unknown.")]
    last_at: Annotated[Instant | None, doc("When it last happened; null: it is a state.")]
    executor_id: int | None
    executor_name: str | None
    job_id: int | None
    job_name: str | None
    run_id: int | None
    trigger_id: int | None
    admin_id: int | None
    admin_name: str | None
    failure_group_id: Annotated[int | None, doc("The failure of several jobs that it tells.")]
    alarm: AlarmOfConcernJson | None
    alarms: Annotated[int, doc("For how many open alarms it stands.")]
    waiting_for: Annotated[str | None, doc("As of a queued run.")]
    why: str | None


class AttentionJson(TypedDict):
    """What needs attention, and what was checked."""

    items: list[ConcernJson]
    looked_at: Instant | None
    runs_since: Instant | None
    succeeded: int
    failed: int
    open_alarms: Annotated[int, doc("Counted up to 1,000.")]
