"""The shape of what the API tells of backfills."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from tickwheel_admin.api.answers import Instant, Json, doc
from tickwheel_admin.domain.backfills.backfill import BackfillState
from tickwheel_admin.domain.runs.run import RunState

# "from" is a word of Python.
_FromTo = TypedDict("_FromTo", {"from": Instant | None, "to": Instant | None})


class BackfillJson(_FromTo):
    """Fires of the past that are run now."""

    id: int
    executor_id: int
    executor_name: str
    job_id: int
    job_name: str
    trigger_id: int
    order: Literal["oldest_first", "newest_first"]
    parallel: Annotated[int, doc("Most runs that have not ended.")]
    parameters: Annotated[Json, doc("JSON object over those of job and trigger, or null.")]
    state: BackfillState
    reason: str | None
    total: Annotated[int, doc("Instants.")]
    existing: Annotated[int, doc("Instants that had a run already.")]
    open: Annotated[int, doc("Instants whose run has not ended.")]
    succeeded: int
    failed: int
    timed_out: int
    lost: int
    cancelled: int
    skipped: int
    requested_by: str | None
    created_at: Instant | None
    ended_at: Instant | None


class BackfillPreviewJson(TypedDict):
    """What a backfill would run."""

    trigger_id: int
    total: int
    existing: int
    new: int
    first_at: Instant | None
    last_at: Instant | None


class FilledInstantJson(TypedDict):
    """An instant of a backfill."""

    at: Instant | None
    run_id: int | None
    state: RunState | None
