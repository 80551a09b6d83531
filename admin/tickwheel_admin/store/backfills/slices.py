"""Writing the next runs of a backfill, and noting how earlier ones ended: one transaction.

Locks in the order backfill, job. The runs of a slice, what the backfill notes of them and how far
it has come are written together, so that whoever goes on from there neither loses nor doubles one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.backfills.backfill import (
    Backfill,
    BackfillState,
    FillOutcome,
    outcome_of,
)
from tickwheel_admin.domain.backfills.instants import DueInstant
from tickwheel_admin.domain.backfills.runs import runs_of_slice
from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.runs.run import FINAL, RunState
from tickwheel_admin.store.backfills.backfills import lock_unchanged, write_backfill
from tickwheel_admin.store.backfills.coverage import not_holes
from tickwheel_admin.store.backfills.existing import existing_runs
from tickwheel_admin.store.database.batch import insert_values, update_values
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import backfill_run, run
from tickwheel_admin.store.jobs.jobs import lock_job
from tickwheel_admin.store.runs.inserts import insert_requested_runs

JOB_DELETED = "job_deleted"
_NO_RUN = 0  # stands for a run that is deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The next instants of a backfill, computed outside of any lock."""

    backfill: Backfill  # as it was read
    instants: Sequence[DueInstant] = ()
    is_last: bool = False  # there are no others behind them
    room: int = 0  # most runs that are to be written now
    error: str | None = None  # its instants cannot be computed: why


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSlice:
    """What one transaction did."""

    runs: int  # new ones
    changed: bool  # something that people see
    goes_on: bool  # more instants may be written at once
    ended: BackfillState | None = None  # how, if it has ended
    reason: str | None = None


def open_states(conn: sa.Connection, backfill_id: int) -> Mapping[RunState | None, int]:
    """Runs that the backfill takes for open, by how they stand; None: no longer in the ledger."""
    return Counter(state for _, state in _open(conn, backfill_id))


def write_slice(conn: sa.Connection, due: Slice, *, run_ids: Sequence[int]) -> WrittenSlice | None:
    """Note what has ended, and write runs for the next instants; None: another admin did.

    Args:
        run_ids: at most so many runs are written.
    """
    if not lock_unchanged(conn, due.backfill):
        return None
    now = now_ms(conn)
    after = _settled(conn, due.backfill)
    if after.state is BackfillState.RUNNING:
        after = _advanced(conn, after, due, run_ids=run_ids, now=now)
    if after.state in (BackfillState.CANCELLED, BackfillState.DONE) and after.open == 0:
        after = replace(after, ended_at=now)
    elif after.state is BackfillState.DONE:
        after = replace(after, state=BackfillState.RUNNING)
    changed = after != due.backfill
    if changed:
        write_backfill(conn, after)
    return WrittenSlice(
        runs=after.written - due.backfill.written,
        changed=changed,
        goes_on=after.state is BackfillState.RUNNING and after.existing > due.backfill.existing,
        ended=None if after.ended_at is None else after.state,
        reason=after.reason,
    )


def _settled(conn: sa.Connection, backfill: Backfill) -> Backfill:
    outcomes = {
        at: outcome_of(state)
        for at, state in _open(conn, backfill.id)
        if state is None or state in FINAL
    }
    if not outcomes:
        return backfill
    update_values(
        conn,
        backfill_run,
        [(backfill.job_id, at, backfill.id, how.value) for at, how in sorted(outcomes.items())],
        match=("job_id", "at", "backfill_id"),
        values=("outcome",),
    )
    return backfill.with_outcomes(Counter(outcomes.values()))


def _open(conn: sa.Connection, backfill_id: int) -> list[tuple[int, RunState | None]]:
    """(instant, state) of runs whose end is not noted."""
    rows = conn.execute(
        reading(
            sa.select(backfill_run.c.at, run.c.state)
            .outerjoin(run, run.c.id == backfill_run.c.run_id)
            .where(
                backfill_run.c.backfill_id == backfill_id,
                backfill_run.c.outcome == FillOutcome.OPEN.value,
            ),
            backfill_run,
            "ix_backfill_run_of",
        )
    )
    return [(row.at, None if row.state is None else RunState(row.state)) for row in rows]


def _advanced(
    conn: sa.Connection, backfill: Backfill, due: Slice, *, run_ids: Sequence[int], now: int
) -> Backfill:
    """With runs for its next instants; `done` when there are no others."""
    if due.error is not None:
        return replace(backfill, state=BackfillState.CANCELLED, reason=due.error[:500])
    if not due.instants:
        return replace(backfill, state=BackfillState.DONE) if due.is_last else backfill
    job = lock_job(conn, backfill.job_id)
    if job is None:
        return replace(backfill, state=BackfillState.CANCELLED, reason=JOB_DELETED)
    room = min(due.room, len(run_ids), backfill.most_open(job.config) - backfill.open)
    standing = _standing(conn, backfill, due.instants)
    new: list[DueInstant] = []
    existing: list[tuple[int, int]] = []
    is_last = due.is_last
    cursor = backfill.cursor_at
    for each in due.instants:
        if each.at in standing:
            existing.append((each.at, standing[each.at] or _NO_RUN))
        elif len(new) < room:
            new.append(each)
        else:
            is_last = False
            break
        cursor = each.at
    _write(conn, backfill, job, new, existing, run_ids=run_ids, now=now)
    return replace(
        backfill,
        state=BackfillState.DONE if is_last else backfill.state,
        cursor_at=cursor,
        written=backfill.written + len(new),
        existing=backfill.existing + len(existing),
    )


def _standing(
    conn: sa.Connection, backfill: Backfill, instants: Sequence[DueInstant]
) -> Mapping[int, int | None]:
    """By instant that is not run, the run that stands for it."""
    job_id, trigger_id = backfill.job_id, backfill.trigger_id
    if backfill.only_holes:
        return not_holes(conn, job_id, trigger_id, instants)
    return existing_runs(conn, job_id, trigger_id, [each.at for each in instants])


def _write(
    conn: sa.Connection,
    backfill: Backfill,
    job: Job,
    new: Sequence[DueInstant],
    existing: Sequence[tuple[int, int]],
    *,
    run_ids: Sequence[int],
    now: int,
) -> None:
    insert_requested_runs(conn, runs_of_slice(backfill, job, new, run_ids=run_ids, now=now))
    noted = [
        *((each.at, run_id, FillOutcome.OPEN) for each, run_id in zip(new, run_ids, strict=False)),
        *((at, run_id, FillOutcome.EXISTING) for at, run_id in existing),
    ]
    insert_values(
        conn,
        backfill_run,
        [
            (at, job.id, backfill.id, backfill.trigger_id, run_id, outcome.value)
            for at, run_id, outcome in noted
        ],
        columns=("at", "job_id", "backfill_id", "trigger_id", "run_id", "outcome"),
    )


def open_run_ids(conn: sa.Connection, backfill_id: int) -> list[int]:
    """Runs whose end the backfill has not noted."""
    return list(
        conn.execute(
            reading(
                sa.select(backfill_run.c.run_id).where(
                    backfill_run.c.backfill_id == backfill_id,
                    backfill_run.c.outcome == FillOutcome.OPEN.value,
                ),
                backfill_run,
                "ix_backfill_run_of",
            )
        ).scalars()
    )
