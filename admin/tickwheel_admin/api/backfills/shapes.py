"""The shape of what the API tells of backfills."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from tickwheel_admin.api.answers import Instant, Json, doc
from tickwheel_admin.domain.backfills.backfill import BackfillState
from tickwheel_admin.domain.backfills.coverage import IntervalState
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
    only_holes: Annotated[bool, doc("Instants whose run failed are run too.")]
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


class CoverageSegmentJson(TypedDict):
    """Intervals in a row of which the same became."""

    start_at: Annotated[Instant | None, doc("Where the first of them begins.")]
    first_at: Annotated[Instant | None, doc("The instant of the first one, where it ends.")]
    last_at: Annotated[Instant | None, doc("The instant of the last one.")]
    state: IntervalState
    reason: Annotated[str | None, doc("Why they were skipped.")]
    intervals: int
    run_ids: Annotated[list[int], doc("Runs that explain it, at most 10.")]


class CoverageJson(TypedDict):
    """What became of the intervals of a trigger."""

    trigger_id: int
    start_at: Annotated[Instant | None, doc("The instants from here on were looked at.")]
    end_at: Annotated[Instant | None, doc("The first instant that was not.")]
    next: Annotated[Instant | None, doc("`from` of the next page; null: this is the last one.")]
    is_whole: Annotated[bool, doc("No interval has a hole, was done in part, or done twice.")]
    holes: Annotated[int, doc("Intervals that a backfill with `only_holes` runs.")]
    counts: Annotated[dict[str, int], doc("Intervals by state.")]
    segments: list[CoverageSegmentJson]


class FilledInstantJson(TypedDict):
    """An instant of a backfill."""

    at: Instant | None
    run_id: int | None
    state: RunState | None
