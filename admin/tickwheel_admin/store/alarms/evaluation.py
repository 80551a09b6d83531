"""Which admin evaluates alarms: the one that holds this lock, for one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.alarms.rules import CHANGES
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.clock import database_now
from tickwheel_admin.store.database.tables import alarm, alarm_signal, failure_group_job, setting

# Name of the setting: when conditions were looked at last, UTC ms, and how often it was locked.
EVALUATOR = "alarm_evaluator"


SEEN_SINCE = "alarm_seen_since"  # name of a setting
SeenSince = Mapping[str, Mapping[int, int]]  # by kind and executor, UTC ms
_seen_since = msgspec.json.Decoder(dict[str, dict[int, int]])


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmWork:
    """What there is to do for the evaluator."""

    now: int  # the database's time
    has_signals: bool
    first_due_at: int | None  # when the first repeat or escalation is due
    looked_at: int  # when conditions were looked at last; 0: never
    edits: str | None  # changes with every edit of a rule
    has_failures: bool  # jobs of failure groups that have not recovered


def read_alarm_work(conn: sa.Connection) -> AlarmWork:
    """One look-up in each of four tables, one statement."""
    row = conn.execute(_WORK).one()
    return AlarmWork(
        now=int(row.now),
        has_signals=row.signal_at is not None,
        first_due_at=row.due_at,
        looked_at=_read(row.looked_at or _NEVER)[0],
        edits=row.edits,
        has_failures=row.failing_id is not None,
    )


_WORK = sa.select(
    database_now().label("now"),
    sa.select(sa.func.min(alarm_signal.c.at)).scalar_subquery().label("signal_at"),
    sa.select(sa.func.min(alarm.c.next_at)).scalar_subquery().label("due_at"),
    sa.select(setting.c.value)
    .where(setting.c.name == EVALUATOR)
    .scalar_subquery()
    .label("looked_at"),
    sa.select(setting.c.value).where(setting.c.name == CHANGES).scalar_subquery().label("edits"),
    sa.select(failure_group_job.c.group_id)
    .where(failure_group_job.c.is_over == sa.false())
    .order_by(failure_group_job.c.is_over, failure_group_job.c.group_id, failure_group_job.c.job_id)
    .limit(1)
    .scalar_subquery()
    .label("failing_id"),
)


def lock_evaluator(conn: sa.Connection, *, looked_at: int | None = None) -> int | None:
    """When conditions were looked at last; None: another admin evaluates right now.

    The lock is also a write that changes the row, so that it holds on clusters whose locks are
    local: they do not notice a write of what is there already.

    Args:
        looked_at: what is noted from now on; None: what was noted before.
    """
    wanted = sa.select(setting.c.value).where(setting.c.name == EVALUATOR)
    value = conn.execute(wanted.with_for_update(skip_locked=True)).scalar_one_or_none()
    if value is None:
        if conn.execute(wanted).first() is not None:
            return None
        insert_rows(
            conn,
            setting,
            [{"name": EVALUATOR, "value": _NEVER}],
            columns=("name", "value"),
            ignore_duplicates_of=("name",),
        )
        value = conn.execute(wanted.with_for_update()).scalar_one()
    before, turn = _read(value)
    after = before if looked_at is None else looked_at
    conn.execute(
        sa.update(setting).where(setting.c.name == EVALUATOR).values(value=f"{after} {turn + 1}")
    )
    return before


def read_seen_since(conn: sa.Connection) -> SeenSince:
    """Since when conditions of executors hold, as the last look left it."""
    value = conn.execute(sa.select(setting.c.value).where(setting.c.name == SEEN_SINCE)).scalar()
    return {} if value is None else _seen_since.decode(value)


def write_seen_since(conn: sa.Connection, seen: SeenSince) -> None:
    """For the next look, whichever admin it is of; the caller holds the evaluators' lock."""
    row = {"name": SEEN_SINCE, "value": msgspec.json.encode(seen).decode()}
    insert_rows(conn, setting, [row], columns=("name", "value"), replace_duplicates_of=("name",))


_NEVER = "0 0"


def _read(value: str) -> tuple[int, int]:
    looked_at, turn = value.split()
    return int(looked_at), int(turn)
