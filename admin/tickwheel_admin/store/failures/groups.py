"""Failure groups: one row for all runs of an executor that failed alike.

The transaction that records results writes none of this: the evaluator of alarms counts by its
signals. Whoever writes a group or its jobs locks the row of the group first, groups by ascending
id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.failures.group import FailureGroup, GroupedFailure
from tickwheel_admin.store.database.batch import insert_rows, update_rows
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import (
    failure_canary,
    failure_group,
    failure_group_job,
    run,
    run_error,
)

BATCH = 1_000  # rows that are looked up at once
FEW_EXECUTORS = 10  # whose groups are read one executor after the other

_FIELDS = tuple(FailureGroup.__dataclass_fields__)
_COLUMNS = (*_FIELDS, "is_resolved")
_SELECTED = sa.select(*(failure_group.c[name] for name in _FIELDS))
# What the evaluator changes of a group that is there.
_COUNTED = (
    "since", "last_at", "runs", "jobs", "first_run_id", "first_job_id", "first_revision",
    "first_node_id", "last_run_id", "returns", "acknowledged_by", "acknowledged_at", "resolved_at",
    "resolved_by", "is_resolved",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJob:
    """What a group counts of one job."""

    group_id: int
    job_id: int
    runs: int
    last_run_id: int
    last_at: int
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRun:
    """A run of a group."""

    id: int
    job_id: int
    job_revision: int
    node_id: int | None
    scheduled_at: int
    ended_at: int | None


# --- counting ------------------------------------------------------------------------------------


def failures_of_runs(
    conn: sa.Connection, run_ids: Iterable[int]
) -> list[tuple[int, GroupedFailure]]:
    """(run, its failure) of those of the runs that failed with a word; `at` is not known yet."""
    found = []
    for some in _batches(run_ids):
        rows = conn.execute(
            sa.select(
                run.c.id,
                run.c.executor_id,
                run.c.job_id,
                run.c.job_revision,
                run.c.node_id,
                run_error.c.id.label("error_id"),
                run_error.c.text,
            )
            .join(run_error, run_error.c.id == run.c.error_id)
            .where(run.c.id.in_(some))
        )
        found += [
            (
                row.id,
                GroupedFailure(
                    group_id=row.error_id,
                    executor_id=row.executor_id,
                    text=row.text,
                    run_id=row.id,
                    job_id=row.job_id,
                    revision=row.job_revision,
                    node_id=row.node_id,
                    at=0,
                ),
            )
            for row in rows
        ]
    return found


def lock_groups(conn: sa.Connection, ids: Iterable[int]) -> dict[int, FailureGroup]:
    """The groups that exist, locked in ascending order of id."""
    found: dict[int, FailureGroup] = {}
    for some in _batches(ids):
        locked = _SELECTED.where(failure_group.c.id.in_(some)).order_by(failure_group.c.id)
        found |= {row.id: _group(row) for row in conn.execute(locked.with_for_update())}
    return found


def insert_groups(conn: sa.Connection, groups: Sequence[FailureGroup]) -> None:
    """Write new groups."""
    rows = [_row(each) for each in sorted(groups, key=lambda each: each.id)]
    insert_rows(conn, failure_group, rows, columns=_COLUMNS)


def update_groups(conn: sa.Connection, groups: Sequence[FailureGroup]) -> None:
    """Write what the evaluator changed of locked groups; owner, notes and mutes are people's."""
    rows = [_row(each) for each in sorted(groups, key=lambda each: each.id)]
    update_rows(conn, failure_group, rows, match=("id",), values=_COUNTED)


def jobs_of_groups(
    conn: sa.Connection, group_ids: Collection[int], job_ids: Collection[int]
) -> dict[tuple[int, int], GroupJob]:
    """What these groups count of these jobs, by (group, job)."""
    found: dict[tuple[int, int], GroupJob] = {}
    for some in _batches(group_ids):
        for jobs in _batches(job_ids):
            rows = conn.execute(
                sa.select(failure_group_job).where(
                    failure_group_job.c.group_id.in_(some), failure_group_job.c.job_id.in_(jobs)
                )
            )
            found |= {(row.group_id, row.job_id): GroupJob(**row._asdict()) for row in rows}
    return found


def write_jobs(conn: sa.Connection, new: Iterable[GroupJob], changed: Iterable[GroupJob]) -> None:
    """Write what locked groups count of jobs."""
    columns = tuple(GroupJob.__dataclass_fields__)
    rows = [_job_row(each) for each in new]
    insert_rows(conn, failure_group_job, rows, columns=columns)
    update_rows(
        conn,
        failure_group_job,
        [_job_row(each) for each in changed],
        match=columns[:2],
        values=columns[2:],
    )


def forget_jobs(conn: sa.Connection, group_ids: Collection[int]) -> None:
    """Groups begin anew: what they count of jobs goes."""
    if group_ids:
        conn.execute(
            sa.delete(failure_group_job).where(failure_group_job.c.group_id.in_(sorted(group_ids)))
        )


# --- resolving -----------------------------------------------------------------------------------


def standing_jobs(conn: sa.Connection, after: tuple[int, int], *, limit: int) -> list[GroupJob]:
    """Jobs that have not recovered, by (group, job), those after one."""
    group_id, job_id = after
    of = failure_group_job.c
    rows = conn.execute(
        reading(
            sa.select(failure_group_job)
            .where(
                of.is_over == sa.false(),
                of.group_id >= group_id,
                sa.or_(of.group_id > group_id, of.job_id > job_id),
            )
            .order_by(of.is_over, of.group_id, of.job_id)
            .limit(limit),
            failure_group_job,
            "ix_failure_group_job_standing",
        )
    )
    return [GroupJob(**row._asdict()) for row in rows]


def end_jobs(conn: sa.Connection, jobs: Sequence[GroupJob], *, now: int) -> int:
    """Note that these have recovered, unless they failed again; how many groups that resolved."""
    locked = lock_groups(conn, {each.group_id for each in jobs})
    of = failure_group_job.c
    for each in jobs:
        conn.execute(
            sa.update(failure_group_job)
            .where(
                of.group_id == each.group_id,
                of.job_id == each.job_id,
                of.last_at == each.last_at,  # it has not failed again
            )
            .values(is_over=True)
        )
    resolved = 0
    for group_id, group in sorted(locked.items()):
        if not group.is_resolved and not _stands(conn, group_id):
            resolve_group(conn, group_id, by=None, now=now)
            resolved += 1
    return resolved


def _stands(conn: sa.Connection, group_id: int) -> bool:
    of = failure_group_job.c
    some = sa.select(of.job_id).where(of.is_over == sa.false(), of.group_id == group_id).limit(1)
    return conn.execute(some).first() is not None


# --- what people do ------------------------------------------------------------------------------


def resolve_group(conn: sa.Connection, group_id: int, *, by: str | None, now: int) -> None:
    """A locked group does not stand any more.

    Args:
        by: name of the person who says so; None: all its jobs have succeeded.
    """
    change_group(
        conn, group_id, resolved_at=now, resolved_by=by, is_resolved=True, muted_until=None
    )
    conn.execute(
        sa.update(failure_group_job)
        .where(failure_group_job.c.group_id == group_id, failure_group_job.c.is_over == sa.false())
        .values(is_over=True)
    )


def change_group(conn: sa.Connection, group_id: int, **values: Any) -> None:
    """Write columns of a locked group."""
    conn.execute(sa.update(failure_group).where(failure_group.c.id == group_id).values(**values))


# --- lists ---------------------------------------------------------------------------------------


def get_group(conn: sa.Connection, group_id: int) -> FailureGroup | None:
    """One group."""
    row = conn.execute(_SELECTED.where(failure_group.c.id == group_id)).one_or_none()
    return None if row is None else _group(row)


def groups_by_id(conn: sa.Connection, ids: Iterable[int]) -> dict[int, FailureGroup]:
    """The groups that exist."""
    return {
        row.id: _group(row)
        for some in _batches(ids)
        for row in conn.execute(_SELECTED.where(failure_group.c.id.in_(some)))
    }


def group_of_run(conn: sa.Connection, run_id: int) -> FailureGroup | None:
    """The group that a run counts to; None: it has none, or is not counted yet."""
    found = _SELECTED.join(run, run.c.error_id == failure_group.c.id).where(run.c.id == run_id)
    row = conn.execute(found).one_or_none()
    return None if row is None else _group(row)


def page_groups(
    conn: sa.Connection,
    *,
    only_standing: bool = True,
    executor_ids: Collection[int] | None = None,
    before: tuple[int, int] | None = None,
    limit: int,
) -> list[FailureGroup]:
    """Groups, those that failed last first.

    Args:
        only_standing: leave out those that are resolved.
        executor_ids: of these executors only; None: of all.
        before: (last_at, id) of the last one of the page before.
    """
    of = failure_group.c
    wanted = _SELECTED.order_by(of.last_at.desc(), of.id.desc()).limit(limit)
    if before is not None:
        at, group_id = before
        wanted = wanted.where(of.last_at <= at, sa.or_(of.last_at < at, of.id < group_id))
    if executor_ids is None or len(executor_ids) > FEW_EXECUTORS:
        if executor_ids is not None:
            wanted = wanted.where(of.executor_id.in_(sorted(executor_ids)))
        if only_standing:
            wanted = wanted.where(of.is_resolved == sa.false())
            return _read(conn, wanted, "ix_failure_group_standing")
        return _read(conn, wanted, "ix_failure_group_recent")
    found = [
        each
        for executor_id in sorted(executor_ids)
        # Each of these parts is in order in the index; together they are not.
        for resolved in (sa.false(), sa.true())[: 1 if only_standing else 2]
        for each in _read(
            conn,
            wanted.where(of.executor_id == executor_id, of.is_resolved == resolved),
            "ix_failure_group_of_executor",
        )
    ]
    return sorted(found, key=lambda each: (each.last_at, each.id), reverse=True)[:limit]


def newest_jobs(conn: sa.Connection, group_id: int, *, limit: int) -> list[GroupJob]:
    """Jobs of a group, those that failed last first."""
    of = failure_group_job.c
    rows = conn.execute(
        reading(
            sa.select(failure_group_job)
            .where(of.group_id == group_id)
            .order_by(of.last_at.desc(), of.job_id.desc())
            .limit(limit),
            failure_group_job,
            "ix_failure_group_job_recent",
        )
    )
    return [GroupJob(**row._asdict()) for row in rows]


def newest_runs(conn: sa.Connection, group_id: int, *, limit: int) -> list[GroupRun]:
    """Runs that failed like this, those that were due last first; also older than the group."""
    rows = conn.execute(
        reading(
            sa.select(*(run.c[name] for name in GroupRun.__dataclass_fields__))
            .where(run.c.error_id == group_id)
            .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
            .limit(limit),
            run,
            "ix_run_of_error",
        )
    )
    return [GroupRun(**row._asdict()) for row in rows]


def remove_old_groups(conn: sa.Connection, *, before: int, limit: int) -> int:
    """Delete resolved groups that failed last before then; how many."""
    of = failure_group.c
    old = sa.select(of.id).where(of.is_resolved == sa.true(), of.last_at < before)
    ids = list(conn.execute(old.order_by(of.last_at).limit(limit)).scalars())
    # One that comes back right now is locked, and read again.
    gone = [
        each.id
        for each in lock_groups(conn, ids).values()
        if each.is_resolved and each.last_at < before
    ]
    if gone:
        forget_jobs(conn, gone)
        conn.execute(sa.delete(failure_canary).where(failure_canary.c.group_id.in_(gone)))
        conn.execute(sa.delete(failure_group).where(of.id.in_(gone)))
    return len(gone)


def _read(conn: sa.Connection, wanted: sa.Select[Any], index: str) -> list[FailureGroup]:
    return [_group(row) for row in conn.execute(reading(wanted, failure_group, index))]


def _row(each: FailureGroup) -> dict[str, Any]:
    return {name: getattr(each, name) for name in _COLUMNS}


def _job_row(each: GroupJob) -> dict[str, Any]:
    return {name: getattr(each, name) for name in GroupJob.__dataclass_fields__}


def _group(row: Any) -> FailureGroup:
    return FailureGroup(**row._asdict())


def _batches(ids: Iterable[int]) -> Iterable[list[int]]:
    wanted = sorted(set(ids))
    return (wanted[first : first + BATCH] for first in range(0, len(wanted), BATCH))
