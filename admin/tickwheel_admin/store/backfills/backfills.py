"""Backfills: finding and adding them, and changing how they stand."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.backfills.backfill import Backfill, BackfillState, FillOutcome
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json, spec_to_json
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.tables import ALIVE, backfill, backfill_run, job

_NAMES = tuple(each.name for each in fields(Backfill))
_SELECTED = sa.select(*(backfill.c[name] for name in _NAMES))
MAX_OPEN = 1_000  # that one pass looks at; the next one goes on behind them


def _backfill(row: Any) -> Backfill:
    values = dict(zip(_NAMES, row, strict=True))
    values |= {
        "spec": spec_from_json(row.spec),
        "state": BackfillState(row.state),
        "newest_first": bool(row.newest_first),
        "only_holes": bool(row.only_holes),
    }
    return Backfill(**values)


def get_backfill(conn: sa.Connection, backfill_id: int) -> Backfill | None:
    """One of any state."""
    row = conn.execute(_SELECTED.where(backfill.c.id == backfill_id)).one_or_none()
    return None if row is None else _backfill(row)


def find_requested(conn: sa.Connection, job_id: int, request_key: str) -> int | None:
    """The backfill of the job that was asked for with this key."""
    return conn.execute(
        sa.select(backfill.c.id).where(
            backfill.c.job_id == job_id, backfill.c.request_key == request_key
        )
    ).scalar_one_or_none()


def open_backfills(conn: sa.Connection, *, after: int = 0) -> list[Backfill]:
    """Those that have something to do, by id; at most `MAX_OPEN`. Resting ones are passed over.

    Args:
        after: those with larger ids.
    """
    wanted = _standing(_SELECTED, resting=False, after=after)
    return list(map(_backfill, conn.execute(wanted)))


def count_open_of_job(conn: sa.Connection, job_id: int) -> int:
    """Backfills of the job that run or are paused."""
    wanted = sa.select(sa.func.count()).where(
        backfill.c.job_id == job_id,
        backfill.c.ended_at.is_(None),
        backfill.c.state != BackfillState.CANCELLED.value,
    )
    found = conn.execute(reading(wanted.select_from(backfill), backfill, "ix_backfill_open_of_job"))
    return int(found.scalar_one())


def end_resting_of_deleted_jobs(conn: sa.Connection, *, reason: str, limit: int) -> int:
    """How many ended: nobody can resume them any more."""
    rows = conn.execute(
        _standing(sa.select(backfill.c.id), resting=True, limit=limit)
        .join(job, job.c.id == backfill.c.job_id)
        .where(unindexed(job.c.deleted_at) != ALIVE)
    ).scalars()
    gone = list(rows)
    if gone:
        conn.execute(
            sa.update(backfill)
            .where(backfill.c.id.in_(gone), backfill.c.resting == sa.true())
            .values(
                state=BackfillState.CANCELLED.value,
                reason=reason,
                resting=False,
                ended_at=now_ms(conn),
                version=backfill.c.version + 1,
            )
        )
    return len(gone)


def _standing(
    wanted: sa.Select[Any], *, resting: bool, after: int = 0, limit: int = MAX_OPEN
) -> sa.Select[Any]:
    # Compared to a literal: the index cannot be used for `IS NOT`.
    return reading(
        wanted.where(
            backfill.c.ended_at.is_(None),
            backfill.c.resting == (sa.true() if resting else sa.false()),
            backfill.c.id > after,
        )
        .order_by(backfill.c.id)
        .limit(limit),
        backfill,
        "ix_backfill_open",
    )


def page_backfills(
    conn: sa.Connection,
    *,
    job_id: int | None,
    executor_ids: Collection[int] | None,
    before: int | None,
    limit: int,
) -> list[Backfill]:
    """Newest ids first.

    Args:
        job_id: of this job only; None: of all.
        executor_ids: of these executors only; None: of all.
        before: those with smaller ids.
    """
    wanted = _SELECTED.order_by(backfill.c.id.desc()).limit(limit)
    if executor_ids is not None:
        of = backfill.c.executor_id if job_id is None else unindexed(backfill.c.executor_id)
        wanted = wanted.where(of.in_(sorted(executor_ids)))
    if job_id is not None:
        wanted = reading(wanted.where(backfill.c.job_id == job_id), backfill, "ix_backfill_of_job")
    if before is not None:
        wanted = wanted.where(backfill.c.id < before)
    return list(map(_backfill, conn.execute(wanted)))


def add_backfill(conn: sa.Connection, new: Backfill, *, request_key: str | None) -> None:
    """Write a new one; a taken request key is refused by the database."""
    values = {name: getattr(new, name) for name in _NAMES}
    values |= {
        "spec": spec_to_json(new.spec),
        "state": new.state.value,
        "request_key": request_key,
        "resting": new.resting,
    }
    conn.execute(sa.insert(backfill).values(values))


def lock_backfill(conn: sa.Connection, backfill_id: int) -> Backfill | None:
    """The backfill; nobody else changes it until this transaction ends.

    The lock is a write, so that it holds on clusters whose row locks are local.
    """
    conn.execute(
        sa.update(backfill)
        .where(backfill.c.id == backfill_id)
        .values(version=backfill.c.version + 1)
    )
    return get_backfill(conn, backfill_id)


def lock_unchanged(conn: sa.Connection, seen: Backfill) -> bool:
    """The same, unless it has changed since it was read."""
    locked = conn.execute(
        sa.update(backfill)
        .where(backfill.c.id == seen.id, backfill.c.version == seen.version)
        .values(version=backfill.c.version + 1)
    )
    return locked.rowcount == 1


def write_backfill(conn: sa.Connection, changed: Backfill) -> None:
    """Write what changes of a locked backfill."""
    conn.execute(
        sa.update(backfill)
        .where(backfill.c.id == changed.id)
        .values(
            state=changed.state.value,
            reason=changed.reason,
            cursor_at=changed.cursor_at,
            written=changed.written,
            existing=changed.existing,
            **{each.value: count for each, count in changed.counts().items()},
            ended_at=changed.ended_at,
            resting=changed.resting,
        )
    )


def page_instants(
    conn: sa.Connection,
    backfill_id: int,
    *,
    outcome: FillOutcome,
    before: int | None,
    limit: int,
) -> list[tuple[int, int | None]]:
    """(instant, run) of a backfill with one outcome, latest instants first.

    The run is None where it was deleted before the backfill came to its instant.
    """
    wanted = (
        sa.select(backfill_run.c.at, backfill_run.c.run_id)
        .where(backfill_run.c.backfill_id == backfill_id, backfill_run.c.outcome == outcome.value)
        .order_by(backfill_run.c.at.desc())
        .limit(limit)
    )
    if before is not None:
        wanted = wanted.where(backfill_run.c.at < before)
    return [
        (row.at, row.run_id or None)
        for row in conn.execute(reading(wanted, backfill_run, "ix_backfill_run_of"))
    ]


def remove_old_backfills(conn: sa.Connection, *, older_than_ms: int, limit: int) -> int:
    """Delete some rows of one that ended longer ago, at last itself; returns how many went."""
    oldest = conn.execute(
        reading(
            sa.select(backfill.c.id)
            .where(backfill.c.ended_at < now_ms(conn) - older_than_ms)
            .order_by(backfill.c.ended_at)
            .limit(1),
            backfill,
            "ix_backfill_open",
        )
    ).scalar_one_or_none()
    if oldest is None:
        return 0
    rows = conn.execute(
        sa.select(backfill_run.c.job_id, backfill_run.c.at)
        .where(backfill_run.c.backfill_id == oldest)
        .limit(limit)
    ).all()
    if rows:
        conn.execute(
            sa.delete(backfill_run).where(
                backfill_run.c.job_id == rows[0].job_id,
                backfill_run.c.at.in_([row.at for row in rows]),
                backfill_run.c.backfill_id == oldest,
            )
        )
    if len(rows) < limit:
        conn.execute(sa.delete(backfill).where(backfill.c.id == oldest))
    return len(rows) + 1
