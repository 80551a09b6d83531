"""Pages of jobs, by name or by their last change: which fit a filter, found in an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.job import Job
from tickwheel_admin.domain.run import LIVE
from tickwheel_admin.store.index_hints import reading, unindexed
from tickwheel_admin.store.jobs import JOB_COLUMNS, WITH_CONFIG, job_from_row
from tickwheel_admin.store.tables import ALIVE, executor, job, job_revision, run

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

    Reads an index in its order until `limit` rows fit: a text, tag or handler that no job has costs
    one look at every job, about 0.1 s for 100,000.

    Args:
        back: those right before `after` instead; in the order of the list as well.
    """
    by, is_down = _order(sort)
    is_down = is_down != back
    index = _index(wanted, sort)
    order = [column.desc() if is_down else column.asc() for column in (by, job.c.id)]
    # The page first, the joins for its rows only: with all in one, MariaDB starts from the
    # executors and sorts every job.
    shown = (
        _chosen(wanted, index, *_behind(by, after, is_down=is_down))
        # An executor has each name once: MariaDB sorts all its jobs when asked for the id as well.
        .order_by(*order[: 1 if index == "uq_job_name" else 2])
        .limit(limit)
        .subquery()
    )
    rows = conn.execute(
        sa.select(*JOB_COLUMNS, executor.c.name.label("executor_name"))
        .select_from(shown)
        .join(job, job.c.id == shown.c.id)
        .join(job_revision, WITH_CONFIG)
        .join(executor, executor.c.id == job.c.executor_id)
        .order_by(*order)
    )
    found = [ListedJob(job=job_from_row(row), executor_name=row.executor_name) for row in rows]
    return found[::-1] if back else found


def count_jobs(conn: sa.Connection, wanted: JobFilter, *, limit: int) -> tuple[int, bool]:
    """How many jobs fit, counted up to `limit`, and whether there are more."""
    index = _index(wanted, JobSort.NAME)
    found = _chosen(wanted, index).limit(limit + 1).subquery()
    count = conn.execute(sa.select(sa.func.count()).select_from(found)).scalar_one()
    return min(count, limit), count > limit


def _order(sort: JobSort) -> tuple[sa.Column[Any], bool]:
    """What a list is sorted by before the id, and whether the greatest come first."""
    column = job.c.updated_at if sort is JobSort.CHANGED else job.c.name
    return column, sort is not JobSort.NAME


def _index(wanted: JobFilter, sort: JobSort) -> str | None:
    """The index that has this order, and as little as possible that does not fit."""
    if wanted.running:
        return None  # few are live: better to begin with those, and to sort their jobs
    if sort is JobSort.CHANGED:
        return "ix_job_changed"
    if wanted.owner is not None:
        return "ix_job_of_owner"
    if wanted.paused:
        return "ix_job_paused"
    if wanted.executors is not None and len(wanted.executors) == 1:
        return "uq_job_name"
    return "ix_job_by_name"


def _chosen(
    wanted: JobFilter, index: str | None, *more: sa.ColumnElement[bool]
) -> sa.Select[Any]:
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
