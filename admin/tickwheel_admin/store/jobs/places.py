"""The ids of one page of jobs, in the order of the list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.tables import job, trigger
from tickwheel_admin.store.jobs.filters import (
    JobFilter,
    JobSort,
    conditions_of,
    index_for,
    matching_ids,
    order_of,
)


def page_of_ids(
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    sort: JobSort,
    back: bool,
    also: Sequence[sa.ColumnElement[bool]] = (),
) -> tuple[sa.Subquery, Sequence[sa.ColumnElement[Any]]]:
    """Ids of one page, and the order in which they were read."""
    by, is_down = order_of(sort)
    is_down = is_down != back
    index = index_for(wanted, sort)
    order = [column.desc() if is_down else column.asc() for column in (by, job.c.id)]
    page = (
        matching_ids(wanted, index, *_behind(by, after, is_down=is_down), *also)
        .add_columns(by.label("place"))
        # An executor has each name once: MariaDB sorts all its jobs when asked for the id as well.
        .order_by(*order[: 1 if index == "uq_job_name" else 2])
        .limit(limit)
        .subquery()
    )
    return page, order


class JobPosition(NamedTuple):
    job_id: int
    value: str | int
    place_id: int


def places_by_fire(
    conn: sa.Connection,
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    back: bool,
) -> list[JobPosition]:
    """A page of the jobs by their next fire, in the direction of reading.

    The place of a job that fires is the instant and the trigger; of all other jobs, the name.
    """
    is_behind_fires = after is not None and isinstance(after[0], str)
    places: list[JobPosition] = []
    if is_behind_fires or not back:
        if not is_behind_fires:
            places = _fires(conn, wanted, after=after, limit=limit, back=back)
        if len(places) < limit:
            named = after if is_behind_fires else None
            places += _without_fires(
                conn, wanted, after=named, limit=limit - len(places), back=back
            )
    if back and len(places) < limit:
        at = None if is_behind_fires else after
        places += _fires(conn, wanted, after=at, limit=limit - len(places), back=back)
    return places


def _fires(
    conn: sa.Connection,
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    back: bool,
) -> list[JobPosition]:
    """Jobs by the first of their triggers that will fire."""
    other = trigger.alias("other")
    sooner = sa.or_(
        unindexed(other.c.next_fire_at) < trigger.c.next_fire_at,
        sa.and_(
            unindexed(other.c.next_fire_at) == trigger.c.next_fire_at,
            unindexed(other.c.id) < trigger.c.id,
        ),
    )
    is_not_first = sa.exists(
        reading(
            sa.select(other.c.id).where(other.c.job_id == trigger.c.job_id, sooner),
            other,
            "ix_trigger_of_job",
        ).correlate(trigger)
    )
    found = (
        sa.select(trigger.c.job_id, trigger.c.next_fire_at, trigger.c.id)
        .select_from(trigger.join(job, job.c.id == trigger.c.job_id))
        .where(trigger.c.next_fire_at.is_not(None), *conditions_of(wanted, "ix_trigger_next"))
        .where(sa.not_(is_not_first))
    )
    if wanted.executors is not None:  # says the same, and spares the look at the job
        found = found.where(unindexed(trigger.c.executor_id).in_(sorted(wanted.executors)))
    if after is not None:
        value, trigger_id = after
        by, of = trigger.c.next_fire_at, trigger.c.id
        found = found.where(
            *((by <= value, sa.or_(by < value, of < trigger_id)) if back else ()),
            *(() if back else (by >= value, sa.or_(by > value, of > trigger_id))),
        )
    order = [trigger.c.next_fire_at, trigger.c.id]
    rows = conn.execute(
        reading(found, trigger, "ix_trigger_next")
        # With all jobs first, MariaDB would sort all triggers.
        .prefix_with("STRAIGHT_JOIN", dialect="mysql")
        .prefix_with("STRAIGHT_JOIN", dialect="mariadb")
        .order_by(*(each.desc() if back else each.asc() for each in order))
        .limit(limit)
    )
    return [JobPosition(row.job_id, row.next_fire_at, row.id) for row in rows]


def _without_fires(
    conn: sa.Connection,
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    back: bool,
) -> list[JobPosition]:
    """Jobs without a next fire, by name."""
    # A look-up for each job: MariaDB would make a table of all triggers for a plain EXISTS.
    last = sa.func.max(unindexed(trigger.c.next_fire_at))
    of_job = sa.select(last).where(trigger.c.job_id == job.c.id).correlate(job)
    last_fire_at = reading(of_job, trigger, "ix_trigger_of_job").scalar_subquery()
    page, _order_of_jobs = page_of_ids(
        wanted,
        after=after,
        limit=limit,
        sort=JobSort.NAME,
        back=back,
        also=(last_fire_at.is_(None),),
    )
    order = [each.desc() if back else each.asc() for each in (page.c.place, page.c.id)]
    rows = conn.execute(sa.select(page.c.id, page.c.place).order_by(*order))
    return [JobPosition(row.id, row.place, row.id) for row in rows]


def _behind(
    by: sa.Column[Any], after: tuple[str | int, int] | None, *, is_down: bool
) -> Iterable[sa.ColumnElement[bool]]:
    if after is None:
        return
    value, job_id = after
    # The first half alone bounds the index range; MariaDB cannot use a row comparison for it.
    if is_down:
        yield by <= value
        yield sa.or_(by < value, job.c.id < job_id)
    else:
        yield by >= value
        yield sa.or_(by > value, job.c.id > job_id)
