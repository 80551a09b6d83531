"""How the last runs of listed jobs ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import job, run
from tickwheel_admin.store.jobs.filters import JobFilter, JobSort, conditions_of, order_of
from tickwheel_admin.store.jobs.places import page_of_ids, places_by_fire

OUTCOMES_AT_ONCE = 500  # jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOutcome:
    """A job's place in a list, and the end of its last run that counts as an outcome."""

    job_id: int
    value: str | int  # as of ListedJob
    place_id: int
    state: RunState | None  # None: no run says anything


def page_outcomes(
    conn: sa.Connection,
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    sort: JobSort,
    back: bool,
    saying: Collection[RunState],
) -> list[LastOutcome]:
    """How the jobs do that follow `after`, or that are before it, in the direction of reading.

    Of each job the newest runs are looked at until one is in a state of `saying`: usually one or
    two rows of `ix_run_of_job`. Whole fires count, and not their shards.
    """
    if sort is JobSort.NEXT_FIRE:
        places = places_by_fire(conn, wanted, after=after, limit=limit, back=back)
        ids = [each.job_id for each in places]
        states = last_outcomes(conn, JobFilter(), ids, saying=saying)
        return [
            LastOutcome(
                job_id=each.job_id,
                value=each.value,
                place_id=each.place_id,
                state=states.get(each.job_id),
            )
            for each in places
        ]
    page, _order_of_jobs = page_of_ids(wanted, after=after, limit=limit, sort=sort, back=back)
    is_down = order_of(sort)[1] != back
    state = _last_state(page, saying)
    order = [each.desc() if is_down else each.asc() for each in (page.c.place, page.c.id)]
    rows = conn.execute(sa.select(page.c.id, page.c.place, state).order_by(*order))
    return [
        LastOutcome(
            job_id=row.id,
            value=row.place,
            place_id=row.id,
            state=None if row.last_state is None else RunState(row.last_state),
        )
        for row in rows
    ]


def last_outcomes(
    conn: sa.Connection, wanted: JobFilter, job_ids: Sequence[int], *, saying: Collection[RunState]
) -> dict[int, RunState]:
    """The same of these jobs, as far as they fit and have a run that says anything."""
    found: dict[int, RunState] = {}
    for first in range(0, len(job_ids), OUTCOMES_AT_ONCE):
        these = job.c.id.in_(job_ids[first : first + OUTCOMES_AT_ONCE])
        page = sa.select(job.c.id).where(these, *conditions_of(wanted, None)).subquery()
        rows = conn.execute(sa.select(page.c.id, _last_state(page, saying)))
        found |= {row.id: RunState(row.last_state) for row in rows if row.last_state is not None}
    return found


def _last_state(page: sa.Subquery, saying: Collection[RunState]) -> sa.Label[str]:
    return (
        reading(
            sa.select(run.c.state)
            .where(
                run.c.job_id == page.c.id,
                run.c.fire_id.is_(None),
                run.c.origin != Origin.TRY.value,
                run.c.state.in_(sorted(each.value for each in saying)),
            )
            .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
            .limit(1)
            .correlate(page),
            run,
            "ix_run_of_job",
        )
        .scalar_subquery()
        .label("last_state")
    )
