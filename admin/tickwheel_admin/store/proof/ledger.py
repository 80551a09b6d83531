"""Runs of fires as a proof reads them: bounded pages and counts of one index, without locks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.proof.fires import FireCount, ProvenFire, outcome_of
from tickwheel_admin.domain.proof.sums import (
    HOUR_MS,
    AuditedSums,
    GoneReason,
    HourStatus,
)
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.scans import beyond
from tickwheel_admin.store.database.tables import run, run_purge
from tickwheel_admin.store.self_audit.periods import retained_from
from tickwheel_admin.store.self_audit.results import EVERYBODY, AuditedHour, read_hours

Scope = Collection[int] | None  # executors; None: all

_FIELDS = tuple(ProvenFire.__struct_fields__)
_SUCCEEDED = RunState.SUCCEEDED.value
# A run of a fire: neither asked for nor a shard, which its whole fire tells of.
_IS_FIRE = sa.and_(run.c.trigger_id.is_not(None), run.c.fire_id.is_(None))
_delay_ms = run.c.started_at - run.c.scheduled_at - sa.func.coalesce(run.c.jitter_ms, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirePosition:
    """A place in the ledger: behind this run."""

    scheduled_at: int
    run_id: int


def page_fires(
    conn: sa.Connection,
    *,
    from_at: int,
    to_at: int,
    executors: Scope,
    after: FirePosition | None = None,
    limit: int,
) -> list[ProvenFire]:
    """Runs of fires from an instant to before another, in the order of their instants."""
    return _page(conn, [], from_at, to_at, executors, after, limit)


def count_fires(
    conn: sa.Connection, *, from_at: int, to_at: int, executors: Scope, late_ms: int
) -> list[FireCount]:
    """What all of `page_fires` come to, counted by the database: one row for each kind."""
    is_retried = sa.case((run.c.tries > 1, 1), else_=0)
    is_late = sa.case((sa.and_(run.c.tries <= 1, _delay_ms > late_ms), 1), else_=0)
    reason = sa.case((run.c.state == RunState.SKIPPED.value, run.c.reason))
    kinds = (
        run.c.state,
        is_retried.label("is_retried"),
        is_late.label("is_late"),
        reason.label("reason"),
    )
    counted = _within(
        sa.select(*kinds, sa.func.count().label("runs")), from_at, to_at, executors
    ).group_by(*(sa.literal_column(str(place)) for place in range(1, len(kinds) + 1)))
    return [
        FireCount(
            outcome=outcome_of(RunState(row.state), 1 + row.is_retried),
            reason=row.reason,
            is_late=bool(row.is_late),
            runs=row.runs,
        )
        for row in conn.execute(reading(counted, run, "ix_run_recent"))
    ]


def page_exceptions(
    conn: sa.Connection,
    *,
    from_at: int,
    to_at: int,
    executors: Scope,
    late_ms: int,
    after: FirePosition | None = None,
    limit: int,
) -> list[ProvenFire]:
    """Those of `page_fires` that are told of by themselves; reads up to all of the time."""
    told = sa.or_(run.c.state != _SUCCEEDED, run.c.tries > 1, _delay_ms > late_ms)
    return _page(conn, [told], from_at, to_at, executors, after, limit)


def page_skipped(
    conn: sa.Connection,
    *,
    from_at: int,
    to_at: int,
    executors: Scope,
    after: FirePosition | None = None,
    limit: int,
) -> list[ProvenFire]:
    """Those of `page_fires` that were skipped; reads the entries of what was skipped then."""
    skipped = run.c.listed_as == RunState.SKIPPED.value
    return _page(conn, [skipped], from_at, to_at, executors, after, limit, index="ix_run_by_state")


def _page(
    conn: sa.Connection,
    conditions: list[sa.ColumnElement[bool]],
    from_at: int,
    to_at: int,
    executors: Scope,
    after: FirePosition | None,
    limit: int,
    *,
    index: str = "ix_run_recent",
) -> list[ProvenFire]:
    wanted = (
        _within(sa.select(*(run.c[name] for name in _FIELDS)), from_at, to_at, executors)
        .where(*conditions)
        .order_by(run.c.scheduled_at, run.c.id)
        .limit(limit)
    )
    if after is not None:
        wanted = wanted.where(
            *beyond(after.scheduled_at, after.run_id, of=run.c.scheduled_at, newer=True)
        )
    return [
        ProvenFire(**{**row._mapping, "state": RunState(row.state)})
        for row in conn.execute(reading(wanted, run, index))
    ]


def _within(wanted: sa.Select[Any], from_at: int, to_at: int, executors: Scope) -> sa.Select[Any]:
    """Of runs of fires of a time, of these executors."""
    wanted = wanted.where(run.c.scheduled_at >= from_at, run.c.scheduled_at < to_at, _IS_FIRE)
    if executors is not None:
        wanted = wanted.where(unindexed(run.c.executor_id).in_(sorted(executors)))
    return wanted


def audited_sums(
    conn: sa.Connection, *, from_at: int, to_at: int, executors: Scope
) -> dict[int, AuditedSums]:
    """By hour, what the self-audit counted of these executors; only hours that were audited.

    Args:
        from_at: an hour; at most 31 days before `to_at`.
    """
    of_whole = [EVERYBODY, *(executors or ())]
    whole: dict[int, AuditedHour] = {}
    parts: dict[int, list[AuditedHour]] = {}
    for row in read_hours(conn, from_at=from_at, to_at=to_at, executors=of_whole):
        if row.executor_id == EVERYBODY:
            whole[row.hour_at] = row
        else:
            parts.setdefault(row.hour_at, []).append(row)
    return {
        hour_at: _added(each, [each] if executors is None else parts.get(hour_at, []))
        for hour_at, each in whole.items()
    }


def _added(whole: AuditedHour, rows: Collection[AuditedHour]) -> AuditedSums:
    absent: dict[str, int] = {}
    for row in rows:
        for reason, number in row.absent.items():
            absent[reason] = absent.get(reason, 0) + number
    expected, runs = sum(row.expected for row in rows), sum(row.fires for row in rows)
    missing = sum(row.missing for row in rows)
    is_whole = whole.audited >= whole.triggers
    return AuditedSums(
        status=HourStatus.AUDITED if is_whole else HourStatus.PARTLY,
        audited_at=whole.audited_at,
        expected=expected,
        surplus=runs + sum(absent.values()) + missing - expected,
        runs=runs,
        without_run=absent,
        missing=missing,
    )


def why_gone(conn: sa.Connection, hour_at: int) -> GoneReason:
    """Why runs of an hour may have been deleted."""
    if hour_at < retained_from(conn):
        return GoneReason.RETENTION
    purged = (
        sa.select(run_purge.c.job_id)
        .where(run_purge.c.to_at >= hour_at, run_purge.c.from_at < hour_at + HOUR_MS)
        .limit(1)
    )
    return GoneReason.UNKNOWN if conn.execute(purged).first() is None else GoneReason.PURGED
