"""Pages of jobs, in any order of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.store.database.tables import executor, job, job_revision
from tickwheel_admin.store.jobs.filters import JobFilter, JobSort
from tickwheel_admin.store.jobs.jobs import JOB_COLUMNS, WITH_CONFIG, job_from_row
from tickwheel_admin.store.jobs.places import page_of_ids, places_by_fire


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job in a list."""

    job: Job
    executor_name: str
    value: str | int = ""  # what the list is sorted by
    place_id: int = 0  # and then by: the job's id, or that of the trigger that fires next


def page_jobs(
    conn: sa.Connection,
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    sort: JobSort = JobSort.NAME,
    back: bool = False,
) -> list[ListedJob]:
    """The jobs that follow `after`: the `value` and the `place_id` of one.

    Reads an index in its order until `limit` rows fit. For a text, a tag or a handler, which no
    index is sorted by, it looks at every job: 60 ms for 100,000.

    Args:
        back: those right before `after` instead; in the order of the list as well.
    """
    if sort is JobSort.NEXT_FIRE:
        places = places_by_fire(conn, wanted, after=after, limit=limit, back=back)
        shown = sa.select(job.c.id).where(job.c.id.in_([each.job_id for each in places])).subquery()
        by_id = {row.id: row for row in conn.execute(_listed(shown))}
        listed = [
            replace(_listed_from_row(row), value=each.value, place_id=each.place_id)
            for each in places
            if (row := by_id.get(each.job_id)) is not None  # None: deleted a moment ago
        ]
        return listed[::-1] if back else listed
    # The page first, the joins for its rows only: with all in one, MariaDB starts from the
    # executors and sorts every job.
    shown, order = page_of_ids(wanted, after=after, limit=limit, sort=sort, back=back)
    rows = conn.execute(_listed(shown).add_columns(shown.c.place).order_by(*order))
    found = [replace(_listed_from_row(row), value=row.place, place_id=row.id) for row in rows]
    return found[::-1] if back else found


def list_jobs(conn: sa.Connection, job_ids: Sequence[int]) -> list[ListedJob]:
    """These jobs, in this order; those that are gone are left out."""
    shown = sa.select(job.c.id).where(job.c.id.in_(job_ids)).subquery()
    found = {row.id: _listed_from_row(row) for row in conn.execute(_listed(shown))}
    return [found[job_id] for job_id in job_ids if job_id in found]


def _listed(shown: sa.Subquery) -> sa.Select[Any]:
    """Whole rows of these ids."""
    return (
        sa.select(*JOB_COLUMNS, executor.c.name.label("executor_name"))
        .select_from(shown)
        .join(job, job.c.id == shown.c.id)
        .join(job_revision, WITH_CONFIG)
        .join(executor, executor.c.id == job.c.executor_id)
    )


def _listed_from_row(row: Any) -> ListedJob:
    return ListedJob(job=job_from_row(row), executor_name=row.executor_name)
