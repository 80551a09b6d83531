"""Ended runs that people want gone, in small steps: whole fires with their shards.

What has not ended is never touched, and neither is what was scheduled a moment ago: planning may
still look back at it. Planning goes on from `trigger.next_fire_at`, so what is gone does not fire
again. Each step reads a bounded part of one index and says where the next one goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FINAL, WHOLE_FIRE
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import job, run
from tickwheel_admin.store.runs.pages import RunPosition
from tickwheel_admin.store.runs.retention import RUNS_PER_BATCH, delete_runs, lock_unneeded
from tickwheel_admin.store.self_audit.periods import keep_purged

LINES_PER_ROW = 100  # lines of log that count as one more row
SCANNED_PER_STEP = 5_000  # entries looked at for one step
COUNTED_PER_STEP = 20_000  # entries, shards among them, counted for the newest runs that stay
COUNTED_PER_READ = 1_000
JOBS_PER_STEP = 200
KEPT_MS = 60_000  # runs newer than this are kept

_FINAL_VALUES = sorted(state.value for state in FINAL)
_START = RunPosition(scheduled_at=0, id=0)
_END = RunPosition(scheduled_at=2**53, id=2**53)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeScope:
    """Which ended runs are deleted."""

    job_id: int | None = None  # of one job; None: of all that the executor has
    executor_id: int | None = None  # None: of all
    until: int  # scheduled before
    keep_newest: int | None = None  # of each job, beside what has not ended; None: by age alone


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePosition:
    """How far a purge has come."""

    job_id: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0  # 0: it does not go job by job
    after: RunPosition = _START
    bound: RunPosition | None = None  # the first run of the job that stays; None: not known
    counted_to: RunPosition | None = (
        None  # how far back was looked for that; None: not begun, or over
    )
    stay: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0  # runs that were counted on the way

    @property
    def is_within_job(self) -> bool:
        """Whether the step before left the job unfinished."""
        return self.bound is not None or self.counted_to is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeStep:
    """What one step may delete."""

    runs: list[int]  # whole fires, and runs that have no shards
    next: PurgePosition | None  # None: this was the last step


def find_purgeable(
    conn: sa.Connection, wanted: PurgeScope, place: PurgePosition, *, rows: int = RUNS_PER_BATCH
) -> PurgeStep:
    """Ended runs from a place on, as many as one step deletes; read without a lock.

    Args:
        rows: runs, with their shards.
    """
    step = _Step(conn, wanted, place, rows)
    if wanted.job_id is None and wanted.executor_id is None and wanted.keep_newest is None:
        return step.through_all()
    return step.job_by_job()


def purge_runs(conn: sa.Connection, run_ids: Sequence[int]) -> int:
    """Delete those that have ended, with their shards; returns how many, shards not counted.

    A fire with a shard that has not ended is kept whole, and so is what a step has brought while
    its workflow has not ended, which may need its result.
    """
    if not run_ids:
        return 0
    shards = conn.execute(sa.select(run.c.id).where(run.c.fire_id.in_(run_ids))).scalars()
    ids = {*run_ids, *shards}
    unneeded = lock_unneeded(conn, ids)
    locked = conn.execute(
        sa.select(
            run.c.id,
            run.c.fire_id,
            run.c.state,
            run.c.job_id,
            run.c.trigger_id,
            run.c.scheduled_at,
            sa.case((run.c.reason == "misfire", run.c.message)).label("told"),
        )
        .where(run.c.id.in_(sorted(ids)))
        .order_by(run.c.id)
    ).all()
    stays = {
        row.fire_id or row.id
        for row in locked
        if row.state not in _FINAL_VALUES or row.id not in unneeded
    }
    gone = [row for row in locked if (row.fire_id or row.id) not in stays]
    fires = (row for row in gone if row.fire_id is None and row.trigger_id is not None)
    keep_purged(conn, fires)
    delete_runs(conn, [row.id for row in gone])
    return sum(row.fire_id is None for row in gone)


class _Step:
    """One look for runs, until there are enough of them or enough was looked at."""

    def __init__(
        self, conn: sa.Connection, wanted: PurgeScope, place: PurgePosition, rows: int
    ) -> None:
        self._conn = conn
        self._wanted = wanted
        self._place = place
        self._until = RunPosition(scheduled_at=wanted.until, id=0)
        self._found: list[int] = []
        self._rows_left = self._rows_per_read = rows
        self._entries_left = SCANNED_PER_STEP
        self._counts_left = COUNTED_PER_STEP
        self._last_job: int | None = None  # that was listed; None: there are no more

    def through_all(self) -> PurgeStep:
        """By age, whatever job they are of."""
        over = self._collect(self._until, job_id=None)
        return PurgeStep(runs=self._found, next=None if over else self._place)

    def job_by_job(self) -> PurgeStep:
        """By the history of each job, from the oldest of its runs."""
        for job_id in self._jobs():
            if job_id != self._place.job_id or not self._place.is_within_job:
                self._place = PurgePosition(job_id=job_id, counted_to=_END)
            if self._place.bound is None and not self._find_bound(job_id):
                return PurgeStep(runs=self._found, next=self._place)
            bound = self._place.bound
            if bound is None:
                continue  # all of its runs stay
            if not self._collect(min(bound, self._until), job_id=job_id):
                return PurgeStep(runs=self._found, next=self._place)
        return PurgeStep(runs=self._found, next=self._following())

    def _jobs(self) -> list[int]:
        """The jobs that this step may get to, by id; deleted ones are among them."""
        if self._wanted.job_id is not None:
            return [self._wanted.job_id]
        oldest = (
            sa.select(sa.func.min(run.c.scheduled_at))
            .where(run.c.job_id == job.c.id)
            .scalar_subquery()
        )
        # The one that the step before did not finish is the first.
        first = self._place.job_id if self._place.is_within_job else self._place.job_id + 1
        statement = (
            sa.select(job.c.id, oldest.label("oldest_at"))
            .where(job.c.id >= first)
            .order_by(job.c.id)
            .limit(JOBS_PER_STEP)
        )
        if self._wanted.executor_id is not None:
            statement = statement.where(job.c.executor_id == self._wanted.executor_id)
        rows = self._conn.execute(statement).all()
        self._last_job = rows[-1].id if len(rows) == JOBS_PER_STEP else None
        return [
            row.id
            for row in rows
            if row.oldest_at is not None and row.oldest_at < self._wanted.until
        ]

    def _following(self) -> PurgePosition | None:
        """Where the jobs behind those of this step begin."""
        if self._wanted.job_id is not None or self._last_job is None:
            return None
        return PurgePosition(job_id=self._last_job)

    def _find_bound(self, job_id: int) -> bool:
        """Note the first run of the job that stays, if any goes; False when the step ends before.

        Looked for in steps too: between two runs may lie a thousand shards.
        """
        keep = self._wanted.keep_newest
        if not keep:
            self._place = PurgePosition(job_id=job_id, bound=self._until)
            return True
        before, stay = self._place.counted_to or _END, self._place.stay
        while self._counts_left > 0:
            size = min(self._counts_left, COUNTED_PER_READ)
            rows = self._conn.execute(_newest_first(job_id, before).limit(size)).all()
            self._counts_left -= len(rows) + 1
            for row in rows:
                before = RunPosition(scheduled_at=row.scheduled_at, id=row.id)
                stay += row.fire_id is None and row.state in _FINAL_VALUES
                if stay == keep:
                    self._place = PurgePosition(job_id=job_id, bound=before)
                    return True
            if len(rows) < size:
                self._place = PurgePosition(job_id=job_id)
                return True
        self._place = PurgePosition(job_id=job_id, counted_to=before, stay=stay)
        return False

    def _collect(self, bound: RunPosition, *, job_id: int | None) -> bool:
        """Add ended runs from the place on; False when the step ends before the bound is met."""
        while True:
            if self._entries_left <= 0 or self._rows_left <= 0:
                return False
            size = min(self._entries_left, self._rows_per_read)
            rows = self._conn.execute(
                _entries(self._place.after, bound, job_id=job_id).limit(size)
            ).all()
            self._entries_left -= len(rows) + 1
            for row in rows:
                if row.fire_id is None and row.state in _FINAL_VALUES:
                    cost = _cost(row)
                    if self._found and cost > self._rows_left:
                        self._rows_left = 0
                        return False
                    self._rows_left -= cost
                    self._found.append(row.id)
                after = RunPosition(scheduled_at=row.scheduled_at, id=row.id)
                self._place = replace(self._place, after=after)
            if len(rows) < size:
                return True


def _cost(row: Any) -> int:
    shards = row.shard_total if row.shard_index == WHOLE_FIRE else 0
    return 1 + int(shards) + int(row.log_lines) // LINES_PER_ROW


def _newest_first(job_id: int, before: RunPosition) -> sa.Select[Any]:
    """The job's runs and shards before a place."""
    at, number = run.c.scheduled_at, run.c.id
    return reading(
        sa.select(at, number, run.c.fire_id, run.c.state)
        .where(
            run.c.job_id == job_id,
            at <= before.scheduled_at,  # this alone bounds the index range
            sa.or_(at < before.scheduled_at, number < before.id),
        )
        .order_by(at.desc(), number.desc()),
        run,
        "ix_run_of_job",
    )


def _entries(after: RunPosition, bound: RunPosition, *, job_id: int | None) -> sa.Select[Any]:
    """Runs between two places, oldest first."""
    at, number = run.c.scheduled_at, run.c.id
    conditions = [
        # The first half of each alone bounds the index range.
        at >= after.scheduled_at,
        sa.or_(at > after.scheduled_at, number > after.id),
        at <= bound.scheduled_at,
        sa.or_(at < bound.scheduled_at, number < bound.id),
    ]
    if job_id is not None:
        conditions.append(run.c.job_id == job_id)
    return reading(
        sa.select(
            at,
            number,
            run.c.fire_id,
            run.c.state,
            run.c.shard_index,
            run.c.shard_total,
            run.c.log_lines,
        )
        .where(*conditions)
        .order_by(at, number),
        run,
        "ix_run_recent" if job_id is None else "ix_run_of_job",
    )
