"""Triggers whose coverage is watched, and the holes that were found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from tickwheel_admin.domain.triggers.trigger_json import spec_from_json
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.tables import ALIVE, coverage_watch, job, run, trigger

_WATCH = coverage_watch.c
_LOOKED_AT = 1_000  # runs of a job among which its first fire is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageWatch:
    """How far the coverage of a trigger is known."""

    trigger_id: int
    job_id: int
    executor_id: int
    limit_ms: int  # so long after its end an interval must be processed
    look_at: int  # UTC ms
    known_to: int | None = None  # nothing changes before it any more; None: nobody has looked
    holes: int = 0  # that are older than the limit
    first_hole_at: int | None = None  # the end of the oldest


class WatchableTrigger(NamedTuple):
    """A trigger as far as rules decide by it."""

    id: int
    job_id: int
    executor_id: int
    tags: tuple[str, ...]  # of its job
    spec: str  # JSON

    @property
    def has_intervals(self) -> bool:
        """Whether it goes by the clock."""
        return not spec_from_json(self.spec).follows_runs


def triggers_after(conn: sa.Connection, after: int, *, limit: int) -> list[WatchableTrigger]:
    """Triggers of jobs by id, from behind one."""
    wanted = (
        sa.select(trigger.c.id, trigger.c.job_id, trigger.c.executor_id, job.c.tags, trigger.c.spec)
        .join(job, job.c.id == trigger.c.job_id)
        .where(trigger.c.id > after, unindexed(job.c.deleted_at) == ALIVE)
        .order_by(trigger.c.id)
        .limit(limit)
    )
    return [
        WatchableTrigger(
            row.id, row.job_id, row.executor_id, tuple(filter(None, row.tags.split(","))), row.spec
        )
        for row in conn.execute(reading(wanted, trigger, "PRIMARY"))
    ]


def watches_between(
    conn: sa.Connection, after: int, until: int | None, *, limit: int
) -> list[CoverageWatch]:
    """Watches by trigger, from behind one; at most `limit`.

    Args:
        until: the last trigger; None: all.
    """
    wanted = _SELECTED.where(_WATCH.trigger_id > after)
    if until is not None:
        wanted = wanted.where(_WATCH.trigger_id <= until)
    return _read(conn, wanted.order_by(_WATCH.trigger_id).limit(limit), "PRIMARY")


def due_watches(conn: sa.Connection, *, now: int, limit: int) -> list[CoverageWatch]:
    """Those to look at, the one that has waited longest first."""
    wanted = _SELECTED.where(_WATCH.look_at <= now).order_by(_WATCH.look_at).limit(limit)
    return _read(conn, wanted, "ix_coverage_watch_look")


def watches_with_holes(
    conn: sa.Connection, scope: Collection[int] | None, *, until: int, limit: int
) -> list[CoverageWatch]:
    """Those whose oldest hole ended at an instant at the latest, the oldest first.

    Args:
        scope: executors; None: all.
    """
    wanted = _SELECTED.where(_WATCH.first_hole_at <= until)
    if scope is not None:
        wanted = wanted.where(unindexed(_WATCH.executor_id).in_(sorted(scope)))
    wanted = wanted.order_by(_WATCH.first_hole_at, _WATCH.executor_id).limit(limit)
    return _read(conn, wanted, "ix_coverage_watch_holes")


def any_watch(conn: sa.Connection) -> bool:
    """Whether anything is watched."""
    return conn.execute(sa.select(_WATCH.trigger_id).limit(1)).first() is not None


def write_watches(conn: sa.Connection, watches: Iterable[CoverageWatch]) -> None:
    """Begin to watch triggers, or set what is known of them."""
    insert_rows(
        conn,
        coverage_watch,
        [{name: getattr(each, name) for name in _COLUMNS} for each in watches],
        columns=_COLUMNS,
        replace_duplicates_of=("trigger_id",),
    )


def note_look(conn: sa.Connection, before: CoverageWatch, after: CoverageWatch) -> bool:
    """Write what was seen; False: the watch is gone, or has another limit by now."""
    written = conn.execute(
        sa.update(coverage_watch)
        .where(_WATCH.trigger_id == before.trigger_id, _WATCH.limit_ms == before.limit_ms)
        .values({name: getattr(after, name) for name in _SEEN})
    )
    return written.rowcount == 1


def delete_watches(conn: sa.Connection, trigger_ids: Sequence[int]) -> None:
    """Watch these no more."""
    if trigger_ids:
        conn.execute(sa.delete(coverage_watch).where(_WATCH.trigger_id.in_(sorted(trigger_ids))))


def first_fire_since(conn: sa.Connection, job_id: int, since: int) -> int | None:
    """The instant of the job's first fire from an instant on; None: none is among the first runs
    from there on.
    """
    wanted = (
        sa.select(run.c.scheduled_at, run.c.trigger_id)
        .where(run.c.job_id == job_id, run.c.scheduled_at >= since)
        .order_by(run.c.scheduled_at, run.c.id)
        .limit(_LOOKED_AT)
    )
    for row in conn.execute(reading(wanted, run, "ix_run_of_job")):
        if row.trigger_id is not None:
            return int(row.scheduled_at)
    return None


_COLUMNS = tuple(CoverageWatch.__dataclass_fields__)
_SEEN = ("look_at", "known_to", "holes", "first_hole_at")
_SELECTED = sa.select(*(_WATCH[name] for name in _COLUMNS))


def _read(
    conn: sa.Connection, statement: sa.Select[tuple[object, ...]], index: str
) -> list[CoverageWatch]:
    rows = conn.execute(reading(statement, coverage_watch, index))
    return [CoverageWatch(**row._mapping) for row in rows]
