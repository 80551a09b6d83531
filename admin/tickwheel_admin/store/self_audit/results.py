"""What the self-audit found: hours with their counts, and how the ledger differs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import AlarmSignal
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.self_audit.absences import Absence
from tickwheel_admin.domain.self_audit.comparison import (
    AuditCount,
    DifferenceKind,
    LedgerDifference,
)
from tickwheel_admin.store.alarms.signals import add_signals
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.claims import claim_work
from tickwheel_admin.store.database.tables import (
    job,
    self_audit_difference,
    self_audit_hour,
)
from tickwheel_admin.store.self_audit.absences import write_absences

EVERYBODY = 0  # the executor id of the counts of all executors together
MAX_DIFFERENCES = 1_000  # of an hour; all are counted, and so many are kept
CLAIM = "self_audit"  # name of the setting that says which admin audits, and until when
_HOUR = self_audit_hour.c
_DIFFERENCE = self_audit_difference.c


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedHour:
    """The counts of one hour of an executor, or of all of them."""

    hour_at: int
    executor_id: int  # EVERYBODY: all
    expected: int
    happened: int
    explained: Mapping[str, int]  # by reason
    fires: int  # runs that the ledger had
    absent: Mapping[str, int]  # by reason: explained, and there was no run
    missing: int
    doubled: int
    late: int
    unexplained: int
    triggers: int  # that there were
    audited: int  # of these
    audited_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDifference:
    """One difference between what should have happened and the ledger."""

    hour_at: int
    trigger_id: int
    at: int  # the instant of the fire
    what: DifferenceKind
    job_id: int
    job_name: str | None  # None: the job is not known
    executor_id: int
    found_at: int
    closed_at: int | None  # when it was found no more; None: it stands
    seen_at: int | None  # when somebody closed its alarm, having looked at it
    seen_by: str | None


# --- who audits ------------------------------------------------------------------------------


def claim_audit(conn: sa.Connection, admin_id: int, *, now: int, for_ms: int) -> bool:
    """Whether this admin audits for a while: one at a time does."""
    return claim_work(conn, CLAIM, admin_id, now=now, for_ms=for_ms)


def audited_hours(conn: sa.Connection, *, from_at: int, to_at: int) -> dict[int, int]:
    """By hour, when it was audited last."""
    rows = conn.execute(
        sa.select(_HOUR.hour_at, _HOUR.audited_at).where(
            _HOUR.hour_at >= from_at, _HOUR.hour_at < to_at, _HOUR.executor_id == EVERYBODY
        )
    )
    return {row.hour_at: row.audited_at for row in rows}


# --- writing ---------------------------------------------------------------------------------


def write_hour(
    conn: sa.Connection,
    hour_at: int,
    counts: Mapping[int, AuditCount],
    found: Sequence[LedgerDifference],
    *,
    absences: Sequence[Absence],
    triggers: Collection[int],
    audited: Collection[int],
    now: int,
) -> int:
    """Write what an audit of an hour found; returns how many differences are new.

    Args:
        counts: by executor; EVERYBODY is there.
        absences: all instants without a run that the counts tell of.
        triggers: ids of those that there were.
        audited: of those that were looked at; what was found of the others before stays.
    """
    conn.execute(sa.delete(self_audit_hour).where(_HOUR.hour_at == hour_at))
    rows = [
        {
            "hour_at": hour_at,
            "executor_id": executor_id,
            "expected": count.expected,
            "happened": count.happened,
            "explained": json.dumps(dict(sorted(count.explained.items()))),
            "fires": count.fires,
            "absent": json.dumps(dict(sorted(count.absent.items()))),
            **{each.value: count.differences[each] for each in DifferenceKind},
            "triggers": len(triggers),
            "audited": len(audited),
            "audited_at": now,
        }
        for executor_id, count in sorted(counts.items())
    ]
    insert_rows(conn, self_audit_hour, rows, columns=tuple(rows[0]))
    write_absences(conn, hour_at, absences)
    left_out = set(triggers) - set(audited)
    new = _write_differences(conn, hour_at, found, left_out=left_out, now=now)
    if new:
        add_signals(conn, [_signal(hour_at, found, now=now)])
    return new


def _signal(hour_at: int, found: Sequence[LedgerDifference], *, now: int) -> AlarmSignal:
    counts = Counter(each.what.value for each in found)
    told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    return AlarmSignal(
        kind=AlarmKind.LEDGER_DIFFERENCE,
        subject_id=hour_at,
        number=now,
        at=now,
        text=f"{told} ({instant_to_iso(hour_at)})",
    )


def _write_differences(
    conn: sa.Connection,
    hour_at: int,
    found: Sequence[LedgerDifference],
    *,
    left_out: set[int],
    now: int,
) -> int:
    known = {
        (row.trigger_id, row.at, row.what): row.closed_at
        for row in conn.execute(
            sa.select(self_audit_difference).where(_DIFFERENCE.hour_at == hour_at)
        )
    }
    standing = {(each.trigger_id, each.at, each.what.value): each for each in found}
    over = [
        key
        for key, closed_at in known.items()
        if key not in standing and closed_at is None and key[0] not in left_out
    ]
    again = [key for key, closed_at in known.items() if key in standing and closed_at is not None]
    anew = {"closed_at": None, "found_at": now, "seen_at": None, "seen_by": None}
    for keys, changed in ((over, {"closed_at": now}), (again, anew)):
        for trigger_id, at, what in keys:
            conn.execute(
                sa.update(self_audit_difference)
                .where(
                    _DIFFERENCE.hour_at == hour_at,
                    _DIFFERENCE.trigger_id == trigger_id,
                    _DIFFERENCE.at == at,
                    _DIFFERENCE.what == what,
                )
                .values(changed)
            )
    room = max(0, MAX_DIFFERENCES - len(known))
    new = [each for key, each in standing.items() if key not in known][:room]
    insert_rows(
        conn,
        self_audit_difference,
        [
            {
                "hour_at": hour_at,
                "trigger_id": each.trigger_id,
                "at": each.at,
                "what": each.what.value,
                "job_id": each.job_id,
                "executor_id": each.executor_id,
                "found_at": now,
            }
            for each in new
        ],
        columns=(
            "hour_at", "trigger_id", "at", "what", "job_id", "executor_id", "found_at",
        ),
    )  # fmt: skip
    return len(new) + len(again)


def forget_results(conn: sa.Connection, *, before: int, hours: int) -> int:
    """Delete the counts of the oldest hours before an instant; returns of how many hours.

    Hours with differences are kept, also when these are closed: they are the history.
    """
    differs = sa.exists().where(_DIFFERENCE.hour_at == _HOUR.hour_at)
    old = conn.execute(
        sa.select(_HOUR.hour_at)
        .where(_HOUR.hour_at < before, ~differs)
        .distinct()
        .order_by(_HOUR.hour_at)
        .limit(hours)
    )
    gone = list(old.scalars())
    if gone:
        conn.execute(sa.delete(self_audit_hour).where(_HOUR.hour_at.in_(gone)))
    return len(gone)


# --- reading ---------------------------------------------------------------------------------


def read_hours(
    conn: sa.Connection, *, from_at: int, to_at: int, executors: Collection[int]
) -> list[AuditedHour]:
    """The counts of hours of these executors, or of EVERYBODY, oldest first."""
    rows = conn.execute(
        sa.select(self_audit_hour)
        .where(
            _HOUR.hour_at >= from_at,
            _HOUR.hour_at < to_at,
            _HOUR.executor_id.in_(sorted(executors)),
        )
        .order_by(_HOUR.hour_at, _HOUR.executor_id)
    )
    return [
        AuditedHour(
            **{
                **row._mapping,
                "explained": json.loads(row.explained),
                "absent": json.loads(row.absent),
            }
        )
        for row in rows
    ]


def read_differences(
    conn: sa.Connection,
    *,
    from_at: int,
    to_at: int,
    executors: Collection[int] | None,
    limit: int,
) -> list[StoredDifference]:
    """Differences of some hours, in their order.

    Args:
        to_at: before this hour.
        executors: of these; None: of all.
    """
    statement = _SELECTED.where(_DIFFERENCE.hour_at >= from_at, _DIFFERENCE.hour_at < to_at)
    if executors is not None:
        statement = statement.where(_DIFFERENCE.executor_id.in_(sorted(executors)))
    keys = (_DIFFERENCE.hour_at, _DIFFERENCE.trigger_id, _DIFFERENCE.at, _DIFFERENCE.what)
    return [_difference(row) for row in conn.execute(statement.order_by(*keys).limit(limit))]


def open_differences(
    conn: sa.Connection, *, found_after: int = -1, limit: int
) -> list[StoredDifference]:
    """Differences that stand, from the first that was found after an instant on.

    For whoever alarms people. The key (hour_at, trigger_id, at, what) of each never changes.
    """
    is_open = sa.and_(_DIFFERENCE.closed_at.is_(None), _DIFFERENCE.found_at > found_after)
    ordered = _SELECTED.where(is_open).order_by(_DIFFERENCE.found_at).limit(limit)
    return [_difference(row) for row in conn.execute(ordered)]


def differences_stand(conn: sa.Connection) -> bool:
    """Whether any difference stands that nobody has looked at."""
    # Counted: for the first one alone, PostgreSQL reads the table, in which most are closed.
    some = sa.select(_DIFFERENCE.found_at).where(_IS_UNSEEN).limit(MAX_DIFFERENCES).subquery()
    return bool(conn.execute(sa.select(sa.func.count()).select_from(some)).scalar_one())


def mark_seen(conn: sa.Connection, *, found_until: int, now: int, by: str) -> None:
    """Somebody has looked at what stands and was found until an instant; it stays as it is."""
    conn.execute(
        sa.update(self_audit_difference)
        .where(_IS_UNSEEN, _DIFFERENCE.found_at <= found_until)
        .values(seen_at=now, seen_by=by)
    )


_IS_UNSEEN = sa.and_(_DIFFERENCE.closed_at.is_(None), _DIFFERENCE.seen_at.is_(None))
_SELECTED = sa.select(self_audit_difference, job.c.name.label("job_name")).select_from(
    self_audit_difference.outerjoin(job, job.c.id == _DIFFERENCE.job_id)
)


def _difference(row: Any) -> StoredDifference:
    return StoredDifference(**{**row._mapping, "what": DifferenceKind(row.what)})
