"""Fires as the ledger has them, read for the self-audit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FINAL, Origin, RunState
from tickwheel_admin.domain.self_audit.past import LedgerFire
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import run

_MISFIRE = "misfire"
_PASSED_OVER = (RunState.SKIPPED.value, RunState.CANCELLED.value)
_FINAL = frozenset(state.value for state in FINAL)
_COLUMNS = (
    run.c.id,
    run.c.trigger_id,
    run.c.job_id,
    run.c.executor_id,
    run.c.scheduled_at,
    run.c.created_at,
    run.c.ended_at,
    run.c.follows_at,
    run.c.origin,
    run.c.state,
    run.c.attempt,
    run.c.reason,
    # Of other runs it may be long.
    sa.case((run.c.reason == _MISFIRE, run.c.message)).label("message"),
)


class _Missed(msgspec.Struct):
    first_at: int = msgspec.field(name="from")
    last_at: int = msgspec.field(name="to")


def firing_ids(conn: sa.Connection, *, from_at: int, to_at: int) -> set[int]:
    """Ids of the triggers that have fires in the ledger within a time; reads all of its runs."""
    statement = (
        sa.select(run.c.trigger_id)
        .where(
            run.c.scheduled_at >= from_at,
            run.c.scheduled_at < to_at,
            run.c.trigger_id.is_not(None),
        )
        .distinct()
    )
    return set(conn.execute(reading(statement, run, "ix_run_recent")).scalars())


def read_fires(
    conn: sa.Connection, ids: Collection[int], *, begin: int, end: int
) -> dict[int, list[LedgerFire]]:
    """By trigger, its fires from `begin` to before `end`; of shards, the whole fire."""
    statement = sa.select(*_COLUMNS).where(
        run.c.trigger_id.in_(sorted(ids)),
        run.c.scheduled_at >= begin,
        run.c.scheduled_at < end,
        run.c.fire_id.is_(None),
    )
    fires: defaultdict[int, list[LedgerFire]] = defaultdict(list)
    for row in conn.execute(reading(statement, run, "uq_run_fires_once")):
        fires[row.trigger_id].append(_fire(row))
    return fires


def next_fires(conn: sa.Connection, ids: Collection[int], *, after: int) -> dict[int, LedgerFire]:
    """By trigger, its first fire from an instant on."""
    return _first_of(conn, dict.fromkeys(ids, run.c.scheduled_at >= after))


def fires_at(conn: sa.Connection, instants: Mapping[int, int]) -> dict[int, LedgerFire]:
    """By trigger, its fire at an instant."""
    return _first_of(conn, {each: run.c.scheduled_at == at for each, at in instants.items()})


def _first_of(
    conn: sa.Connection, wanted: Mapping[int, sa.ColumnElement[bool]]
) -> dict[int, LedgerFire]:
    """By trigger, the first of its fires that are wanted; one statement, one look-up each."""
    if not wanted:
        return {}
    firsts = [
        reading(
            sa.select(*_COLUMNS)
            .where(run.c.trigger_id == trigger_id, condition, run.c.fire_id.is_(None))
            .order_by(run.c.scheduled_at, run.c.shard_index)
            .limit(1),
            run,
            "uq_run_fires_once",
        ).subquery()
        for trigger_id, condition in sorted(wanted.items())
    ]
    rows = conn.execute(sa.union_all(*(sa.select(each) for each in firsts)))
    return {row.trigger_id: _fire(row) for row in rows}


def _fire(row: Any) -> LedgerFire:
    missed = None
    if row.reason == _MISFIRE and row.state == RunState.SKIPPED.value:
        try:
            told = msgspec.json.decode(row.message or "", type=_Missed)
            missed = told.first_at, told.last_at
        except msgspec.DecodeError:
            missed = row.scheduled_at, row.scheduled_at
    passed_over = None
    if row.state in _PASSED_OVER and not row.attempt:
        is_skipped = row.state == RunState.SKIPPED.value
        passed_over = (row.reason if is_skipped else None) or row.state
    return LedgerFire(
        run_id=row.id,
        trigger_id=row.trigger_id,
        job_id=row.job_id,
        executor_id=row.executor_id,
        scheduled_at=row.scheduled_at,
        created_at=row.created_at,
        ended_at=row.ended_at if row.state in _FINAL else None,  # that of a try stays
        follows_at=row.follows_at,
        is_on_time=row.origin == Origin.SCHEDULE.value,
        passed_over=passed_over,
        missed=missed,
    )
