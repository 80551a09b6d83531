"""Pages of jobs, by name or by their last change: which fit a filter, found in an index."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.job import Job
from tickwheel_admin.domain.run import LIVE, RunState
from tickwheel_admin.store.index_hints import reading, unindexed
from tickwheel_admin.store.jobs import JOB_COLUMNS, WITH_CONFIG, job_from_row
from tickwheel_admin.store.tables import ALIVE, executor, job, job_revision, run

OUTCOMES_AT_ONCE = 500  # jobs

_LIVE_VALUES = sorted(state.value for state in LIVE)


class JobSort(StrEnum):
    """The orders of a list of jobs."""

    NAME = "name"
    NAME_DOWN = "-name"
    CHANGED = "-changed"  # what was changed last comes first


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job in a list."""

    job: Job
    executor_name: str


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
    """The jobs that follow `after`, a name or an instant of a change and an id.

    Reads an index in its order until `limit` rows fit. For a text, a tag or a handler, which no
    index is sorted by, it looks at every job: 60 ms for 100,000.

    Args:
        back: those right before `after` instead; in the order of the list as well.
    """
    # The page first, the joins for its rows only: with all in one, MariaDB starts from the
    # executors and sorts every job.
    shown, order = _page(wanted, after=after, limit=limit, sort=sort, back=back)
    rows = conn.execute(_listed(shown).order_by(*order))
    found = [_listed_from_row(row) for row in rows]
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
    value: str | int  # what the list is sorted by
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
    page, _order_of_jobs = _page(wanted, after=after, limit=limit, sort=sort, back=back)
    is_down = _order(sort)[1] != back
    state = _last_state(page, saying)
    order = [each.desc() if is_down else each.asc() for each in (page.c.place, page.c.id)]
    rows = conn.execute(sa.select(page.c.id, page.c.place, state).order_by(*order))
    return [
        LastOutcome(
            job_id=row.id,
            value=row.place,
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
) -> tuple[sa.Subquery, Sequence[sa.ColumnElement[Any]]]:
    """Ids of one page, and the order in which they were read."""
    by, is_down = _order(sort)
    is_down = is_down != back
    index = _index(wanted, sort)
    order = [column.desc() if is_down else column.asc() for column in (by, job.c.id)]
    page = (
        _chosen(wanted, index, *_behind(by, after, is_down=is_down))
        .add_columns(by.label("place"))
        # An executor has each name once: MariaDB sorts all its jobs when asked for the id as well.
        .order_by(*order[: 1 if index == "uq_job_name" else 2])
        .limit(limit)
        .subquery()
    )
    return page, order


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
    column = job.c.updated_at if sort is JobSort.CHANGED else job.c.name
    return column, sort is not JobSort.NAME


def _index(wanted: JobFilter, sort: JobSort) -> str | None:
    """The index that has this order, and as little as possible that does not fit."""
    if wanted.running:
        return None  # few are live: better to begin with those, and to sort their jobs
    if sort is not JobSort.CHANGED:
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
    return "ix_job_changed" if sort is JobSort.CHANGED else "ix_job_by_name"


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
