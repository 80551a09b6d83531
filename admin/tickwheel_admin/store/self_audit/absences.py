"""The single instants without a run: what the counts of the self-audit tell of, one by one.

Of an hour at most MOST_LISTED rows, each of a trigger and a reason; instants that are equally far
apart cost one entry of a row.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.self_audit.absences import Absence, InstantSpan, listed
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.tables import self_audit_absence, self_audit_difference

_ABSENCE = self_audit_absence.c
_DIFFERENCE = self_audit_difference.c
_COLUMNS = ("hour_at", "trigger_id", "reason", "job_id", "executor_id", "instants")
_AT_ONCE = 500  # rows that are deleted by one statement


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsencePosition:
    """A place in the list of an hour: at this trigger and reason, which it may be continued in."""

    trigger_id: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDifference:
    """Who has looked at a missing fire."""

    at: int
    by: str


def write_absences(conn: sa.Connection, hour_at: int, absences: Iterable[Absence]) -> None:
    """Write those of an hour that are listed; what is as it was before is not written again."""
    rows = {(each.trigger_id, each.reason): _row(hour_at, each) for each in listed(absences)}
    stored = {
        (row.trigger_id, row.reason): row.instants
        for row in conn.execute(
            sa.select(_ABSENCE.trigger_id, _ABSENCE.reason, _ABSENCE.instants).where(
                _ABSENCE.hour_at == hour_at
            )
        )
    }
    gone: defaultdict[str, list[int]] = defaultdict(list)
    for trigger_id, reason in sorted(stored.keys() - rows.keys()):
        gone[reason].append(trigger_id)
    for reason, ids in gone.items():
        for first in range(0, len(ids), _AT_ONCE):
            conn.execute(
                sa.delete(self_audit_absence).where(
                    _ABSENCE.hour_at == hour_at,
                    _ABSENCE.trigger_id.in_(ids[first : first + _AT_ONCE]),
                    _ABSENCE.reason == reason,
                )
            )
    insert_rows(
        conn,
        self_audit_absence,
        [row for key, row in sorted(rows.items()) if stored.get(key) != row["instants"]],
        columns=_COLUMNS,
        replace_duplicates_of=("hour_at", "trigger_id", "reason"),
    )


def page_absences(
    conn: sa.Connection,
    *,
    hour_at: int,
    executors: Collection[int] | None,
    since: AbsencePosition | None = None,
    limit: int,
) -> Sequence[Absence]:
    """Those of an hour, by trigger and reason, from a place on.

    Args:
        executors: of these; None: of all. Rows of others are passed over: all of an hour's at most.
    """
    wanted = sa.select(*(_ABSENCE[name] for name in _COLUMNS)).where(_ABSENCE.hour_at == hour_at)
    if executors is not None:
        wanted = wanted.where(unindexed(_ABSENCE.executor_id).in_(sorted(executors)))
    if since is not None:
        wanted = wanted.where(
            _ABSENCE.trigger_id >= since.trigger_id,
            sa.or_(_ABSENCE.trigger_id > since.trigger_id, _ABSENCE.reason >= since.reason),
        )
    wanted = wanted.order_by(_ABSENCE.trigger_id, _ABSENCE.reason).limit(limit)
    return [
        Absence(
            trigger_id=row.trigger_id,
            job_id=row.job_id,
            executor_id=row.executor_id,
            reason=row.reason,
            spans=[
                InstantSpan(hour_at + offset, step, count)
                for offset, step, count in json.loads(row.instants)
            ],
        )
        for row in conn.execute(reading(wanted, self_audit_absence, "PRIMARY"))
    ]


def seen_missing(
    conn: sa.Connection, hour_at: int, trigger_ids: Collection[int]
) -> dict[tuple[int, int], SeenDifference]:
    """By trigger and instant, who has looked at a missing fire and closed its alarm."""
    if not trigger_ids:
        return {}
    wanted = sa.select(
        _DIFFERENCE.trigger_id, _DIFFERENCE.at, _DIFFERENCE.seen_at, _DIFFERENCE.seen_by
    ).where(
        _DIFFERENCE.hour_at == hour_at,
        _DIFFERENCE.trigger_id.in_(sorted(trigger_ids)),
        unindexed(_DIFFERENCE.closed_at).is_(None),
        _DIFFERENCE.seen_at.is_not(None),
    )
    return {
        (row.trigger_id, row.at): SeenDifference(at=row.seen_at, by=row.seen_by)
        for row in conn.execute(reading(wanted, self_audit_difference, "PRIMARY"))
    }


def forget_absences(conn: sa.Connection, *, before: int, hours: int) -> int:
    """Delete those of the oldest hours before an instant; returns of how many hours."""
    gone = 0
    for _ in range(hours):
        oldest = sa.select(_ABSENCE.hour_at).order_by(_ABSENCE.hour_at).limit(1)
        hour_at = conn.execute(oldest).scalar_one_or_none()
        if hour_at is None or hour_at >= before:
            break
        conn.execute(sa.delete(self_audit_absence).where(_ABSENCE.hour_at == hour_at))
        gone += 1
    return gone


def _row(hour_at: int, absence: Absence) -> dict[str, object]:
    spans = [[first_at - hour_at, step_ms, n] for first_at, step_ms, n in absence.spans]
    return {
        "hour_at": hour_at,
        "trigger_id": absence.trigger_id,
        "reason": absence.reason,
        "job_id": absence.job_id,
        "executor_id": absence.executor_id,
        "instants": json.dumps(spans, separators=(",", ":")),
    }
