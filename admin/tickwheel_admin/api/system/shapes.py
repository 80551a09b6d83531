"""The shape of what the API tells of the installation."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from tickwheel_admin.api.answers import Instant, doc
from tickwheel_admin.domain.self_audit.comparison import DifferenceKind


class AuditPartJson(TypedDict):
    """One of the changes of a bulk action."""

    id: int
    object_id: int | None
    job_name: str | None


class AuditJson(TypedDict):
    """Who changed what."""

    id: int
    at: Instant | None
    user_name: str
    address: str
    action: str
    executor_id: int | None
    executor_name: str | None
    object_id: int | None
    job_name: str | None
    detail: Annotated[dict[str, Any], doc("As the action has it.")]
    part_of: Annotated[int | None, doc("The entry of the bulk action that it was part of.")]
    parts: Annotated[list[AuditPartJson], doc("Of a bulk action: its first 20 changes.")]


class CountsJson(TypedDict):
    """What the self-audit counts."""

    expected: int
    happened: int
    explained: Annotated[dict[str, int], doc("Numbers by reason.")]
    missing: int
    doubled: int
    late: int
    unexplained: int
    triggers: Annotated[int, doc("That there were.")]
    audited: Annotated[int, doc("Of these.")]


class AuditTotalsJson(CountsJson):
    """The counts of some hours."""

    hours: int


class AuditedHourJson(CountsJson):
    """The counts of an hour."""

    hour_at: Instant | None
    audited_at: Instant | None


class DifferenceJson(TypedDict):
    """A fire that did not happen as it should have."""

    hour_at: Instant | None
    what: DifferenceKind
    at: Instant | None
    trigger_id: int
    job_id: int
    job_name: str | None
    executor_id: int
    found_at: Instant | None
    closed_at: Annotated[Instant | None, doc("Null: it stands.")]
    seen_at: Instant | None
    seen_by: str | None


# "from" is a word of Python.
_FromTo = TypedDict("_FromTo", {"from": Instant | None, "to": Instant | None})


class SelfAuditJson(_FromTo):
    """Whether everything that should have fired did."""

    totals: AuditTotalsJson
    hours: list[AuditedHourJson]
    differences: list[DifferenceJson]
    more_differences: Annotated[bool, doc("There are more than the first 1,000.")]


class LoopJson(TypedDict):
    """A loop of an admin."""

    last_pass_ms_ago: int | None
    failing: bool


class AdminJson(TypedDict):
    """A server process."""

    id: int
    name: str
    version: str
    live: bool
    started_at: Instant | None
    uptime_seconds: int
    lease_expires_at: Instant | None
    clock_offset_ms: Annotated[int | None, doc("The database's clock minus its own.")]
    database_ms: Annotated[float | None, doc("What renewing its lease took.")]
    sessions: Annotated[int | None, doc("Nodes connected to it.")]
    waiting: Annotated[int | None, doc("Messages of nodes not yet recorded.")]
    loops: dict[str, LoopJson]


class SystemJson(TypedDict):
    """The installation."""

    paused_at: Annotated[Instant | None, doc("Since when everything is paused.")]
