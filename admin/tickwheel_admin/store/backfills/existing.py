"""Which instants of a job have a run already, so that a backfill does not run them twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.backfills.backfill import VOID, VOID_STATES, FillOutcome
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import backfill_run, run, trigger

_AT_ONCE = 500  # instants of one query
_NOT_DONE = sorted(each.value for each in VOID_STATES)
_NO_RUN = sorted(each.value for each in (*VOID, FillOutcome.EXISTING))


def existing_runs(
    conn: sa.Connection, job_id: int, trigger_id: int, ats: Sequence[int]
) -> dict[int, int]:
    """By instant, the run that was or will be made for it.

    That is a fire of this trigger, or of one that the job no longer has: an edit of its schedule
    makes a new trigger. Runs of earlier backfills count as well. What was skipped or cancelled does
    not: nothing was done.
    """
    if not ats:
        return {}
    others = other_triggers(conn, job_id, trigger_id)
    fires = _fires(job_id, others).where(run.c.scheduled_at.in_(ats))
    filled = _filled(job_id, others).where(backfill_run.c.at.in_(ats))
    found = {row.at: row.id for row in conn.execute(fires)}
    return found | {row.at: row.run_id for row in conn.execute(filled)}


def count_existing(
    conn: sa.Connection,
    job_id: int,
    trigger_id: int,
    ats: Sequence[int],
    *,
    breathe: Callable[[], None],
) -> int:
    """How many of these instants have one; reads no more than what these may have.

    Args:
        breathe: called after every few of them.
    """
    others = other_triggers(conn, job_id, trigger_id)
    count = 0
    for first in range(0, len(ats), _AT_ONCE):
        some = ats[first : first + _AT_ONCE]
        found: set[int] = set()
        # Mostly there is nothing at all in a time, which is known from the first entry of an index.
        if _is_any(conn, run, run.c.scheduled_at, job_id, some, "ix_run_of_job"):
            fires = _fires(job_id, others).where(run.c.scheduled_at.in_(some))
            found |= {row.at for row in conn.execute(fires)}
        if _is_any(conn, backfill_run, backfill_run.c.at, job_id, some, "PRIMARY"):
            filled = _filled(job_id, others).where(backfill_run.c.at.in_(some))
            found |= {row.at for row in conn.execute(filled)}
        count += len(found)
        breathe()
    return count


def _is_any(
    conn: sa.Connection,
    table: sa.Table,
    at: sa.Column[int],
    job_id: int,
    ats: Sequence[int],
    index: str,
) -> bool:
    """Whether the job has any row from the first to the last of these instants."""
    wanted = sa.select(at).where(table.c.job_id == job_id, at >= min(ats), at <= max(ats)).limit(1)
    return conn.execute(reading(wanted, table, index)).first() is not None


def other_triggers(conn: sa.Connection, job_id: int, trigger_id: int) -> list[int]:
    """Triggers that the job has beside one, by id: what they do does not count for it."""
    rows = conn.execute(sa.select(trigger.c.id).where(trigger.c.job_id == job_id)).scalars()
    return sorted(each for each in rows if each != trigger_id)


def _fires(job_id: int, others: Sequence[int]) -> sa.Select[Any]:
    wanted = sa.select(run.c.scheduled_at.label("at"), run.c.id).where(
        run.c.job_id == job_id,
        run.c.trigger_id.is_not(None),
        run.c.fire_id.is_(None),
        run.c.state.not_in(_NOT_DONE),
    )
    if others:
        wanted = wanted.where(run.c.trigger_id.not_in(others))
    return reading(wanted, run, "ix_run_of_job")


def _filled(job_id: int, others: Sequence[int]) -> sa.Select[Any]:
    wanted = sa.select(backfill_run.c.at, backfill_run.c.run_id).where(
        backfill_run.c.job_id == job_id, backfill_run.c.outcome.not_in(_NO_RUN)
    )
    if others:
        wanted = wanted.where(backfill_run.c.trigger_id.not_in(others))
    return reading(wanted, backfill_run, "PRIMARY")
