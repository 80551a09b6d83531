"""Forecasts of deadlines: whose turn it is to be forecast, what was foretold, what became of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.forecast.deadline_record import DeadlineOutcome, DeadlineRecord
from tickwheel_admin.domain.forecast.night_plan import DeadlineVerdict
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import ALIVE, deadline_forecast, executor, setting

# Name of the setting: when the deadlines of executors are to be forecast again, UTC ms.
TURNS = "deadline_forecasts"

MAX_STANDING = 10_000  # warnings that are read at once; an open alarm beyond them would end
MAX_SCORED = 5_000  # the newest, that a score rests on
LOOKED_AT_ONCE = 500

_turns = msgspec.json.Decoder(dict[int, int])
_COLUMNS = tuple(each.name for each in fields(DeadlineRecord))
_KEY = ("rule_id", "job_id", "at")


# --- turns ---------------------------------------------------------------------------------------


def all_executors(conn: sa.Connection) -> list[int]:
    """Ids of all executors that are not deleted."""
    statement = sa.select(executor.c.id).where(executor.c.deleted_at == ALIVE)
    return list(conn.execute(statement.order_by(executor.c.id)).scalars())


def claim_executor(
    conn: sa.Connection, executor_ids: Collection[int], *, now: int, for_ms: int
) -> int | None:
    """Take the executor that has waited longest for its forecast, so that no other admin does.

    Returns:
        None: it is nobody's turn, or another admin is just taking one.
    """
    wanted = sa.select(setting.c.value).where(setting.c.name == TURNS)
    value = conn.execute(wanted).scalar()
    if value is None:
        insert_rows(
            conn,
            setting,
            [{"name": TURNS, "value": "{}"}],
            columns=("name", "value"),
            ignore_duplicates_of=("name",),
        )
    elif _first_due(_turns.decode(value), executor_ids, now) is None:
        return None  # mostly
    value = conn.execute(wanted.with_for_update(skip_locked=True)).scalar()
    if value is None:
        return None
    turns = {n: at for n, at in _turns.decode(value).items() if n in executor_ids}
    executor_id = _first_due(turns, executor_ids, now)
    if executor_id is not None:
        _write_turns(conn, turns | {executor_id: now + for_ms})
    return executor_id


def set_turn(conn: sa.Connection, executor_id: int, *, at: int) -> None:
    """When it is the executor's turn again, UTC ms."""
    wanted = sa.select(setting.c.value).where(setting.c.name == TURNS).with_for_update()
    value = conn.execute(wanted).scalar()
    _write_turns(conn, (_turns.decode(value) if value else {}) | {executor_id: at})


def _first_due(turns: Mapping[int, int], executor_ids: Collection[int], now: int) -> int | None:
    due = [(turns.get(each, 0), each) for each in executor_ids if turns.get(each, 0) <= now]
    return min(due)[1] if due else None


def _write_turns(conn: sa.Connection, turns: Mapping[int, int]) -> None:
    row = {"name": TURNS, "value": msgspec.json.encode(turns).decode()}
    insert_rows(conn, setting, [row], columns=("name", "value"), replace_duplicates_of=("name",))


# --- records -------------------------------------------------------------------------------------


def future_records(conn: sa.Connection, executor_id: int, *, now: int) -> list[DeadlineRecord]:
    """What is foretold of an executor's deadlines that are still to come."""
    t = deadline_forecast
    return _read(
        conn,
        sa.select(t).where(t.c.executor_id == executor_id, t.c.at > now),
        "ix_deadline_forecast_of_executor",
    )


def standing_warnings(
    conn: sa.Connection, scope: Collection[int] | None, *, since: int, until: int, made_since: int
) -> list[DeadlineRecord]:
    """Deadlines of which people are warned and nobody knows yet what became of them, the next
    first, at most MAX_STANDING.

    Args:
        scope: executors; None: all of them.
        since: only deadlines after this instant, UTC ms.
        until: and until then.
        made_since: older forecasts do not count any more.
    """
    t = deadline_forecast
    statement = sa.select(t).where(
        t.c.at > since,
        t.c.at <= until,
        t.c.warned_since.is_not(None),
        t.c.outcome.is_(None),
        t.c.made_at >= made_since,
    )
    if scope is not None:
        statement = statement.where(t.c.executor_id.in_(sorted(scope)))
    statement = statement.order_by(t.c.at).limit(MAX_STANDING)
    return [each for each in _read(conn, statement, "ix_deadline_forecast_at") if each.is_told]


def newest_of_jobs(
    conn: sa.Connection, job_ids: Iterable[int], *, since: int, until: int
) -> dict[int, DeadlineRecord]:
    """By job, its last deadline between two instants of which a warning stood."""
    t = deadline_forecast
    wanted = sorted(set(job_ids))
    if not wanted:
        return {}
    statement = (
        sa.select(t)
        .where(
            t.c.at > since, t.c.at <= until, t.c.warned_since.is_not(None), t.c.job_id.in_(wanted)
        )
        .order_by(t.c.at)
    )
    return {each.job_id: each for each in _read(conn, statement, "ix_deadline_forecast_at")}


def write_records(conn: sa.Connection, records: Sequence[DeadlineRecord]) -> None:
    """Store records, new ones and those that were there."""
    rows = [{name: getattr(each, name) for name in _COLUMNS} for each in records]
    insert_rows(conn, deadline_forecast, rows, columns=_COLUMNS, replace_duplicates_of=_KEY)


def delete_records(conn: sa.Connection, records: Iterable[DeadlineRecord]) -> None:
    """Forget deadlines that their rules do not set any more."""
    t = deadline_forecast
    for each in records:
        conn.execute(
            sa.delete(t).where(
                t.c.rule_id == each.rule_id, t.c.job_id == each.job_id, t.c.at == each.at
            )
        )


def records_to_look_at(conn: sa.Connection, *, now: int) -> list[DeadlineRecord]:
    """Those whose end is to be looked at, at most LOOKED_AT_ONCE. One index look-up mostly."""
    t = deadline_forecast
    statement = sa.select(t).where(t.c.look_at <= now).order_by(t.c.look_at).limit(LOOKED_AT_ONCE)
    return _read(conn, statement, "ix_deadline_forecast_look")


def known_ends(conn: sa.Connection, executor_id: int, *, since: int) -> list[DeadlineRecord]:
    """Deadlines of an executor whose end is known, the newest MAX_SCORED since an instant."""
    t = deadline_forecast
    statement = (
        sa.select(t)
        .where(t.c.executor_id == executor_id, t.c.at >= since, t.c.outcome.is_not(None))
        .order_by(t.c.at.desc())
        .limit(MAX_SCORED)
    )
    return _read(conn, statement, "ix_deadline_forecast_of_executor")


def remove_old_forecasts(conn: sa.Connection, *, before: int, limit: int) -> int:
    """Delete records of deadlines before an instant; returns how many."""
    t = deadline_forecast
    statement = sa.select(t).where(t.c.at < before).order_by(t.c.at).limit(limit)
    old = _read(conn, statement, "ix_deadline_forecast_at")
    delete_records(conn, old)
    return len(old)


def _read(conn: sa.Connection, statement: sa.Select[Any], index: str) -> list[DeadlineRecord]:
    return [_record(row) for row in conn.execute(reading(statement, deadline_forecast, index))]


def _record(row: Any) -> DeadlineRecord:
    found = dict(row._mapping)
    found["verdict"] = DeadlineVerdict(row.verdict)
    found["outcome"] = None if row.outcome is None else DeadlineOutcome(row.outcome)
    if row.early_warned is not None:
        found["early_warned"] = bool(row.early_warned)
    return DeadlineRecord(**found)
