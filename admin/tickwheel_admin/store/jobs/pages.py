"""Pages of jobs, by name or by their last change: which fit a filter, found in an index."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.jobs.job import Job
from tickwheel_admin.domain.runs.run import LIVE, RunState
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.tables import ALIVE, executor, job, job_revision, run, trigger
from tickwheel_admin.store.jobs.jobs import JOB_COLUMNS, WITH_CONFIG, job_from_row

OUTCOMES_AT_ONCE = 500  # jobs

_LIVE_VALUES = sorted(state.value for state in LIVE)


class JobSort(StrEnum):
    """The orders of a list of jobs."""

    NAME = "name"
    NAME_DOWN = "-name"
    CHANGED = "-changed"  # what was changed last comes first
    NEXT_FIRE = "next_fire"  # what fires soonest, then by name what nothing fires
    DURATION = "-duration"  # what usually takes longest comes first
    FAILURE_RATE = "-failure_rate"  # of the last runs; what fails most comes first


# The columns of sorts that no name gives, with the index that each has.
_SORTED = {
    JobSort.CHANGED: (job.c.updated_at, "ix_job_changed"),
    JobSort.DURATION: (job.c.usual_ms, "ix_job_usual"),
    JobSort.FAILURE_RATE: (job.c.failure_rate, "ix_job_failure_rate"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job in a list."""

    job: Job
    executor_name: str
    value: str | int = ""  # what the list is sorted by
    place_id: int = 0  # and then by: the job's id, or that of the trigger that fires next


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs a list shows."""

    text: str = ""  # part of a name, handler, owner or tag, in any case
    executors: frozenset[int] | None = None  # None: all
    name: str | None = None  # the whole name
    name_part: str = ""  # part of the name, in any case
    owner: str | None = None  # the whole name of an owner
    tags: tuple[str, ...] = ()  # a job has all of them
    handler: str | None = None  # the whole name of a handler
    paused: bool | None = None  # None: whether or not
    running: bool = False  # only those with a live run


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
        places = _places_by_fire(conn, wanted, after=after, limit=limit, back=back)
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
    shown, order = _page(wanted, after=after, limit=limit, sort=sort, back=back)
    rows = conn.execute(_listed(shown).add_columns(shown.c.place).order_by(*order))
    found = [replace(_listed_from_row(row), value=row.place, place_id=row.id) for row in rows]
    return found[::-1] if back else found


def job_ids(conn: sa.Connection, wanted: JobFilter) -> frozenset[int]:
    """The ids of all jobs that fit; looks at every job, unless only an owner is wanted."""
    return frozenset(conn.execute(_chosen(wanted, _index(wanted, JobSort.NAME))).scalars())


def list_jobs(conn: sa.Connection, job_ids: Sequence[int]) -> list[ListedJob]:
    """These jobs, in this order; those that are gone are left out."""
    shown = sa.select(job.c.id).where(job.c.id.in_(job_ids)).subquery()
    found = {row.id: _listed_from_row(row) for row in conn.execute(_listed(shown))}
    return [found[job_id] for job_id in job_ids if job_id in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastOutcome:
    """A job's place in a list, and how the last of its runs ended that says how it fares."""

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
        places = _places_by_fire(conn, wanted, after=after, limit=limit, back=back)
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
    page, _order_of_jobs = _page(wanted, after=after, limit=limit, sort=sort, back=back)
    is_down = _order(sort)[1] != back
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
        page = sa.select(job.c.id).where(these, *_conditions(wanted, None)).subquery()
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


def count_jobs(conn: sa.Connection, wanted: JobFilter, *, limit: int) -> tuple[int, bool]:
    """How many jobs fit, counted up to `limit`, and whether there are more."""
    index = _index(wanted, JobSort.NAME)
    found = _chosen(wanted, index).limit(limit + 1).subquery()
    count = conn.execute(sa.select(sa.func.count()).select_from(found)).scalar_one()
    return min(count, limit), count > limit


def _page(
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    sort: JobSort,
    back: bool,
    also: Sequence[sa.ColumnElement[bool]] = (),
) -> tuple[sa.Subquery, Sequence[sa.ColumnElement[Any]]]:
    """Ids of one page, and the order in which they were read."""
    by, is_down = _order(sort)
    is_down = is_down != back
    index = _index(wanted, sort)
    order = [column.desc() if is_down else column.asc() for column in (by, job.c.id)]
    page = (
        _chosen(wanted, index, *_behind(by, after, is_down=is_down), *also)
        .add_columns(by.label("place"))
        # An executor has each name once: MariaDB sorts all its jobs when asked for the id as well.
        .order_by(*order[: 1 if index == "uq_job_name" else 2])
        .limit(limit)
        .subquery()
    )
    return page, order


class _Place(NamedTuple):
    job_id: int
    value: str | int
    place_id: int


def _places_by_fire(
    conn: sa.Connection,
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    back: bool,
) -> list[_Place]:
    """A page of the jobs by their next fire, in the direction of reading.

    Of what fires, the place is the instant and the trigger; of all other jobs, the name.
    """
    is_behind_fires = after is not None and isinstance(after[0], str)
    places: list[_Place] = []
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
) -> list[_Place]:
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
        .where(trigger.c.next_fire_at.is_not(None), *_conditions(wanted, "ix_trigger_next"))
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
    return [_Place(row.job_id, row.next_fire_at, row.id) for row in rows]


def _without_fires(
    conn: sa.Connection,
    wanted: JobFilter,
    *,
    after: tuple[str | int, int] | None,
    limit: int,
    back: bool,
) -> list[_Place]:
    """Jobs of which no trigger will fire, by their names."""
    # A look-up for each job: MariaDB would make a table of all triggers for a plain EXISTS.
    last = sa.func.max(unindexed(trigger.c.next_fire_at))
    of_job = sa.select(last).where(trigger.c.job_id == job.c.id).correlate(job)
    last_fire_at = reading(of_job, trigger, "ix_trigger_of_job").scalar_subquery()
    page, _order_of_jobs = _page(
        wanted,
        after=after,
        limit=limit,
        sort=JobSort.NAME,
        back=back,
        also=(last_fire_at.is_(None),),
    )
    order = [each.desc() if back else each.asc() for each in (page.c.place, page.c.id)]
    rows = conn.execute(sa.select(page.c.id, page.c.place).order_by(*order))
    return [_Place(row.id, row.place, row.id) for row in rows]


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


def _order(sort: JobSort) -> tuple[sa.Column[Any], bool]:
    """What a list is sorted by before the id, and whether the greatest come first."""
    column = _SORTED[sort][0] if sort in _SORTED else job.c.name
    return column, sort is not JobSort.NAME


def _index(wanted: JobFilter, sort: JobSort) -> str | None:
    """The index that has this order, and as little as possible that does not fit."""
    if wanted.running:
        return None  # few are live: better to begin with those, and to sort their jobs
    if sort not in _SORTED:
        if wanted.owner is not None:
            return "ix_job_of_owner"
        if wanted.paused:
            return "ix_job_paused"
        if wanted.executors is not None and len(wanted.executors) == 1:
            return "uq_job_name"
    if wanted.name is None and (
        wanted.text or wanted.name_part or wanted.tags or wanted.handler is not None
    ):
        # Every row has to be looked at: in their own order that takes a third of the time.
        return "PRIMARY"
    return _SORTED[sort][1] if sort in _SORTED else "ix_job_by_name"


def _chosen(wanted: JobFilter, index: str | None, *more: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Ids of the jobs that fit, from this index."""
    found = sa.select(job.c.id).where(*_conditions(wanted, index), *more)
    return found if index is None else reading(found, job, index)


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


def _conditions(wanted: JobFilter, index: str | None) -> Iterable[sa.ColumnElement[bool]]:
    if index == "ix_trigger_next":
        yield unindexed(job.c.deleted_at) == ALIVE
    else:
        yield job.c.deleted_at == ALIVE
    if index == "PRIMARY":
        yield unindexed(job.c.id) > 0  # MariaDB reads a range of a key where one is given
    if index == "uq_job_name":
        yield job.c.executor_id == min(wanted.executors or ())
    elif wanted.executors is not None:
        yield unindexed(job.c.executor_id).in_(sorted(wanted.executors))
    if wanted.name is not None:
        yield job.c.name == wanted.name
    if wanted.owner is not None:
        yield job.c.owner == wanted.owner
    if wanted.paused is not None:
        yield job.c.paused.is_(wanted.paused)
    if wanted.handler is not None:
        yield job.c.handler == wanted.handler
    tags = sa.literal(",") + job.c.tags + ","
    for tag in wanted.tags:
        # Whatever would be replaced is there. LIKE compares in any case on SQLite.
        yield sa.func.replace(tags, f",{tag},", "") != tags
    if wanted.running:
        # At most as many runs are live as all nodes have slots.
        yield job.c.id.in_(sa.select(run.c.job_id).where(run.c.state.in_(_LIVE_VALUES)))
    if wanted.name_part:
        named = sa.func.lower(sa.bindparam("named", f"%{escaped(wanted.name_part)}%"))
        yield sa.func.lower(job.c.name).like(named, escape="\\")
    if wanted.text:
        # Both sides lowered by the database: SQLite lowers ASCII only, Python would lower more.
        part = sa.func.lower(sa.bindparam("part", f"%{escaped(wanted.text)}%"))
        yield sa.or_(
            *(
                sa.func.lower(column).like(part, escape="\\")
                for column in (job.c.name, job.c.handler, job.c.owner, job.c.tags)
            )
        )


def escaped(text: str) -> str:
    """The text as LIKE takes it literally, with a backslash as its escape."""
    for special in ("\\", "%", "_"):
        text = text.replace(special, f"\\{special}")
    return text


def jobs_called(
    conn: sa.Connection, name: str, executors: frozenset[int] | None, *, limit: int
) -> Sequence[int]:
    """Ids of the jobs of exactly this name."""
    wanted = JobFilter(name=name, executors=executors)
    found = _chosen(wanted, "ix_job_by_name").order_by(job.c.id).limit(limit)
    return conn.execute(found).scalars().all()
