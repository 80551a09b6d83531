"""Which jobs a list shows and in which order, found in an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import LIVE
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import IS_LIVE
from tickwheel_admin.store.database.tables import ALIVE, job, run

_LIVE_VALUES = sorted(state.value for state in LIVE)


class JobSort(StrEnum):
    """The orders of a list of jobs."""

    NAME = "name"
    NAME_DOWN = "-name"
    CHANGED = "-changed"  # the job that was changed last comes first
    NEXT_FIRE = "next_fire"  # the job that fires soonest; then, by name, jobs without a next fire
    DURATION = "-duration"  # what usually takes longest comes first
    FAILURE_RATE = "-failure_rate"  # of the last runs; what fails most comes first


# The columns of sorts that no name gives, with the index that each has.
_SORTED = {
    JobSort.CHANGED: (job.c.updated_at, "ix_job_changed"),
    JobSort.DURATION: (job.c.usual_ms, "ix_job_usual"),
    JobSort.FAILURE_RATE: (job.c.failure_rate, "ix_job_failure_rate"),
}


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


def job_ids(conn: sa.Connection, wanted: JobFilter) -> frozenset[int]:
    """The ids of all jobs that fit; looks at every job, unless only an owner is wanted."""
    return frozenset(conn.execute(matching_ids(wanted, index_for(wanted, JobSort.NAME))).scalars())


def count_jobs(conn: sa.Connection, wanted: JobFilter, *, limit: int) -> tuple[int, bool]:
    """How many jobs fit, counted up to `limit`, and whether there are more."""
    index = index_for(wanted, JobSort.NAME)
    found = matching_ids(wanted, index).limit(limit + 1).subquery()
    count = conn.execute(sa.select(sa.func.count()).select_from(found)).scalar_one()
    return min(count, limit), count > limit


def order_of(sort: JobSort) -> tuple[sa.Column[Any], bool]:
    """What a list is sorted by before the id, and whether the greatest come first."""
    column = _SORTED[sort][0] if sort in _SORTED else job.c.name
    return column, sort is not JobSort.NAME


def index_for(wanted: JobFilter, sort: JobSort) -> str | None:
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


def matching_ids(
    wanted: JobFilter, index: str | None, *more: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    """Ids of the jobs that fit, from this index."""
    found = sa.select(job.c.id).where(*conditions_of(wanted, index), *more)
    return found if index is None else reading(found, job, index)


def conditions_of(wanted: JobFilter, index: str | None) -> Iterable[sa.ColumnElement[bool]]:
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
        yield job.c.id.in_(sa.select(run.c.job_id).where(IS_LIVE))
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
    found = matching_ids(wanted, "ix_job_by_name").order_by(job.c.id).limit(limit)
    return conn.execute(found).scalars().all()
