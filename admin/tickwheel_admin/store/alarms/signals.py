"""Signals of alarms: written where something happens, taken by the evaluator."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import sqlalchemy as sa

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.alarms.signal import MAX_TEXT_CHARS, AlarmSignal
from tickwheel_admin.store.database.batch import insert_values
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import alarm_signal

_COLUMNS = ("subject_id", "number", "kind", "at", "executor_id", "job_id", "text")
_KEY = ("kind", "subject_id", "number")
_values = attrgetter(*_COLUMNS)


def add_signals(conn: sa.Connection, signals: Sequence[AlarmSignal]) -> None:
    """Write signals; those that are there already stay as they are. One statement, or none."""
    rows = [_values(each) for each in signals]
    insert_values(conn, alarm_signal, rows, columns=_COLUMNS, ignore_duplicates_of=_KEY)


def oldest_signals(conn: sa.Connection, *, limit: int) -> list[AlarmSignal]:
    """The signals that wait longest."""
    rows = conn.execute(
        reading(
            sa.select(*(alarm_signal.c[name] for name in _COLUMNS))
            .order_by(alarm_signal.c.at)
            .limit(limit),
            alarm_signal,
            "ix_alarm_signal_oldest",
        )
    )
    return [AlarmSignal(**(row._asdict() | {"kind": AlarmKind(row.kind)})) for row in rows]


def has_signals(conn: sa.Connection) -> bool:
    """Whether any signal waits."""
    return conn.execute(sa.select(alarm_signal.c.at).limit(1)).first() is not None


def delete_signals(conn: sa.Connection, signals: Sequence[AlarmSignal]) -> int:
    """Forget signals that were taken; how many were there still."""
    deleted = 0
    for kind in sorted({each.kind for each in signals}):
        keys = [(each.subject_id, each.number) for each in signals if each.kind is kind]
        deleted += conn.execute(
            sa.delete(alarm_signal).where(
                alarm_signal.c.kind == kind.value,
                # MariaDB finds no rows by pairs; by the first of them it does.
                alarm_signal.c.subject_id.in_(sorted({subject_id for subject_id, _ in keys})),
                sa.tuple_(alarm_signal.c.subject_id, alarm_signal.c.number).in_(keys),
            )
        ).rowcount
    return deleted


def remove_stale_signals(conn: sa.Connection, *, before: int, limit: int) -> int:
    """Forget signals that nobody took, which only happens while no evaluator runs; how many."""
    stale = [each for each in oldest_signals(conn, limit=limit) if each.at < before]
    return delete_signals(conn, stale)


def short_text(text: str) -> str:
    """A text as long as a signal keeps it, without what databases refuse."""
    return text.replace("\0", "")[:MAX_TEXT_CHARS]
