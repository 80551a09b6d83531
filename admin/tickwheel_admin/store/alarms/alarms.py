"""Alarms: one open row for each rule and subject, what people do about it, and lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.alarm import Alarm, told_from_json, told_to_json
from tickwheel_admin.domain.alarms.kind import AlarmKind, Severity
from tickwheel_admin.store.database.batch import insert_rows, update_rows
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import alarm

OPEN = 0  # `closed_key` of an alarm that is open
BATCH = 500  # subjects that are looked up at once
FEW_EXECUTORS = 10  # whose alarms are read one executor after the other

_COLUMNS = [column.name for column in alarm.columns]
_FIELDS = tuple(Alarm.__dataclass_fields__)
SELECTED_ALARM = sa.select(*(alarm.c[name] for name in _FIELDS))
# What the evaluator changes; the rest is people's.
_COUNTED = (
    "severity", "job_id", "run_id", "told", "count", "last_at", "repeats", "repeat_at",
    "escalate_at", "next_at", "escalated_at",
)  # fmt: skip


# --- as the evaluator needs them ------------------------------------------------------------------


def lock_open_alarms(
    conn: sa.Connection, keys: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], Alarm]:
    """The open alarms of these (rule, subject), locked in ascending order of id."""
    by_rule: defaultdict[int, list[str]] = defaultdict(list)
    for rule_id, subject in keys:
        by_rule[rule_id].append(subject)
    ids: list[int] = []
    for rule_id, subjects in sorted(by_rule.items()):
        for first in range(0, len(subjects), BATCH):
            some = subjects[first : first + BATCH]
            ids += conn.execute(
                sa.select(alarm.c.id).where(
                    alarm.c.rule_id == rule_id,
                    alarm.c.subject.in_(some),
                    alarm.c.closed_key == OPEN,
                )
            ).scalars()
    locked = lock_alarms(conn, ids)
    return {(each.rule_id, each.subject): each for each in locked if each.is_open}


def lock_alarms(conn: sa.Connection, ids: Iterable[int]) -> list[Alarm]:
    """The alarms that exist, locked in ascending order of id."""
    wanted = sorted(set(ids))
    found: list[Alarm] = []
    for first in range(0, len(wanted), BATCH):
        some = SELECTED_ALARM.where(alarm.c.id.in_(wanted[first : first + BATCH]))
        rows = conn.execute(some.order_by(alarm.c.id).with_for_update())
        found += [alarm_of_row(row) for row in rows]
    return found


def insert_alarms(conn: sa.Connection, alarms: Sequence[Alarm]) -> None:
    """Write new open alarms; the unique key refuses a second one of a rule and subject."""
    rows = [_row(each) | {"closed_key": OPEN} for each in alarms]
    insert_rows(conn, alarm, rows, columns=_COLUMNS)


def update_alarms(conn: sa.Connection, alarms: Sequence[Alarm]) -> None:
    """Write what the evaluator changed of locked alarms."""
    rows = [_row(each) for each in sorted(alarms, key=lambda each: each.id)]
    update_rows(conn, alarm, rows, match=("id",), values=_COUNTED)


def close_alarms(
    conn: sa.Connection, ids: Collection[int], *, now: int, by: str | None = None
) -> int:
    """Close open alarms; returns how many were open.

    Args:
        by: name of the person who does; None: what was the matter is over.
    """
    if not ids:
        return 0
    closed = conn.execute(
        sa.update(alarm)
        .where(alarm.c.id.in_(sorted(ids)), alarm.c.closed_key == OPEN)
        .values(closed_key=alarm.c.id, closed_at=now, closed_by=by, next_at=None)
    )
    return closed.rowcount


def due_alarms(conn: sa.Connection, *, now: int, limit: int) -> list[int]:
    """Ids of open alarms whose repeat or escalation is due, the longest first."""
    due = sa.select(alarm.c.id).where(alarm.c.next_at <= now).order_by(alarm.c.next_at)
    return list(conn.execute(due.limit(limit)).scalars())


def open_alarms_after(conn: sa.Connection, after: int, *, limit: int) -> list[Alarm]:
    """Open alarms by id, those after one."""
    wanted = SELECTED_ALARM.where(alarm.c.closed_key == OPEN, alarm.c.id > after)
    return [alarm_of_row(row) for row in conn.execute(wanted.order_by(alarm.c.id).limit(limit))]


def first_due_alarm(conn: sa.Connection) -> int | None:
    """When the first repeat or escalation is due."""
    return conn.execute(sa.select(sa.func.min(alarm.c.next_at))).scalar()


# --- what people do ------------------------------------------------------------------------------


def acknowledge_alarm(conn: sa.Connection, alarm_id: int, *, by: str, now: int) -> bool:
    """Somebody looks after it: it is told again and escalated no more. False: it is not open, or
    somebody else did.
    """
    return _change(
        conn,
        alarm_id,
        alarm.c.acknowledged_at.is_(None),
        acknowledged_by=by,
        acknowledged_at=now,
        next_at=None,
    )


def mute_alarm(conn: sa.Connection, alarm_id: int, *, until: int | None, now: int) -> bool:
    """Tell nothing of it until then; None: tell again. False: it is not open.

    When it is told again was put off to the end of an earlier mute, so it is looked at anew.
    """
    goes_on = sa.and_(
        alarm.c.acknowledged_at.is_(None),
        sa.or_(alarm.c.repeat_at.is_not(None), alarm.c.escalate_at.is_not(None)),
    )
    next_at = sa.case((goes_on, now), else_=alarm.c.next_at)
    return _change(conn, alarm_id, sa.true(), muted_until=until, next_at=next_at)


def assign_alarm(conn: sa.Connection, alarm_id: int, *, to: str | None) -> bool:
    """Say who looks after it; None: nobody. False: it is not open."""
    return _change(conn, alarm_id, sa.true(), assigned_to=to)


def _change(
    conn: sa.Connection, alarm_id: int, condition: sa.ColumnElement[bool], **values: Any
) -> bool:
    is_open = sa.and_(alarm.c.id == alarm_id, alarm.c.closed_key == OPEN)
    changed = conn.execute(sa.update(alarm).where(is_open, condition).values(**values))
    return changed.rowcount == 1


# --- lists ---------------------------------------------------------------------------------------


def get_alarm(conn: sa.Connection, alarm_id: int) -> Alarm | None:
    """One alarm."""
    row = conn.execute(SELECTED_ALARM.where(alarm.c.id == alarm_id)).one_or_none()
    return None if row is None else alarm_of_row(row)


def alarms_by_id(conn: sa.Connection, ids: Iterable[int]) -> dict[int, Alarm]:
    """The alarms that exist."""
    rows = conn.execute(SELECTED_ALARM.where(alarm.c.id.in_(sorted(set(ids)))))
    return {row.id: alarm_of_row(row) for row in rows}


def page_alarms(
    conn: sa.Connection,
    *,
    only_open: bool = True,
    executor_ids: Collection[int] | None = None,
    job_id: int | None = None,
    kind: AlarmKind | None = None,
    before: tuple[int, int] | None = None,
    limit: int,
) -> list[Alarm]:
    """Alarms, those that happened last first.

    Args:
        executor_ids: of these executors only; None: all, also those of no executor.
        before: (last_at, id) of the last one of the page before.
    """
    wanted = SELECTED_ALARM.order_by(alarm.c.last_at.desc(), alarm.c.id.desc()).limit(limit)
    if only_open:
        wanted = wanted.where(alarm.c.closed_key == OPEN)
    if kind is not None:
        wanted = wanted.where(alarm.c.kind == kind.value)
    if before is not None:
        at, alarm_id = before
        wanted = wanted.where(
            alarm.c.last_at <= at,
            sa.or_(alarm.c.last_at < at, alarm.c.id < alarm_id),
        )
    if job_id is not None:
        wanted = wanted.where(alarm.c.job_id == job_id)
        if executor_ids is not None:
            wanted = wanted.where(alarm.c.executor_id.in_(sorted(executor_ids)))
        return _read(conn, wanted, "ix_alarm_of_job")
    if executor_ids is None or len(executor_ids) > FEW_EXECUTORS:
        if executor_ids is not None:
            wanted = wanted.where(alarm.c.executor_id.in_(sorted(executor_ids)))
        return _read(conn, wanted, "ix_alarm_open" if only_open else "ix_alarm_recent")
    # The alarms of all others are not walked through: each executor's have their own order.
    index = "ix_alarm_of_executor" if only_open else "ix_alarm_recent_of_executor"
    if kind is not None and only_open:
        index = "ix_alarm_open_by_kind"
    found = [
        each
        for executor_id in sorted(executor_ids)
        for each in _read(conn, wanted.where(alarm.c.executor_id == executor_id), index)
    ]
    return sorted(found, key=lambda each: (each.last_at, each.id), reverse=True)[:limit]


def count_open_alarms(
    conn: sa.Connection, *, executor_ids: Collection[int] | None = None, most: int = 1_000
) -> int:
    """How many alarms are open, counted up to `most`; arguments as of `page_alarms`."""
    some = sa.select(alarm.c.id).where(alarm.c.closed_key == OPEN)
    index = "ix_alarm_open"
    if executor_ids is not None:
        some = some.where(alarm.c.executor_id.in_(sorted(executor_ids)))
        index = "ix_alarm_of_executor"
    counted = reading(some.limit(most), alarm, index).subquery()
    return conn.execute(sa.select(sa.func.count()).select_from(counted)).scalar_one()


def remove_old_alarms(conn: sa.Connection, *, before: int, limit: int) -> list[int]:
    """Delete alarms that were closed before then; returns their ids."""
    old = sa.select(alarm.c.id).where(alarm.c.closed_at < before).order_by(alarm.c.closed_at)
    ids = list(conn.execute(old.limit(limit)).scalars())
    if ids:
        conn.execute(sa.delete(alarm).where(alarm.c.id.in_(ids)))
    return ids


def _read(conn: sa.Connection, wanted: sa.Select[Any], index: str) -> list[Alarm]:
    return [alarm_of_row(row) for row in conn.execute(reading(wanted, alarm, index))]


def _row(each: Alarm) -> dict[str, Any]:
    return {name: getattr(each, name) for name in _FIELDS} | {
        "kind": each.kind.value,
        "severity": each.severity.value,
        "told": told_to_json(each.told),
    }


def alarm_of_row(row: Any) -> Alarm:
    """What `SELECTED_ALARM` read."""
    return Alarm(
        **row._asdict()
        | {
            "kind": AlarmKind(row.kind),
            "severity": Severity(row.severity),
            "told": told_from_json(row.told),
        }
    )
