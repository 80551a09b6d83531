"""Canary retries: rows that say how far each has come, written by comparing their version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.failures.canary import (
    DUE_BEFORE_MS,
    CanaryReason,
    CanaryRetry,
    CanaryState,
)
from tickwheel_admin.domain.runs.run import FAILURES, Origin, RunState
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import failure_canary, run
from tickwheel_admin.store.runs.retries import IS_RETRIED

OPEN = 0  # `closed_key` of one that goes on: there is one for each group
MAX_OPEN = 200  # that one pass looks at

_FIELDS = tuple(CanaryRetry.__dataclass_fields__)
_SELECTED = sa.select(*(failure_canary.c[name] for name in _FIELDS))
_FAILURE_VALUES = sorted(state.value for state in FAILURES)
_open_runs = msgspec.json.Decoder(tuple[int, ...])


def add_canary(conn: sa.Connection, canary: CanaryRetry) -> None:
    """Write a new one; the unique key refuses a second one of its group that goes on."""
    row = _row(canary)
    insert_rows(conn, failure_canary, [row], columns=tuple(row))


def open_canaries(conn: sa.Connection, *, after: int) -> list[CanaryRetry]:
    """Those that go on, by id, behind one; at most `MAX_OPEN`."""
    of = failure_canary.c
    wanted = _SELECTED.where(of.closed_key == OPEN, of.id > after).order_by(of.id).limit(MAX_OPEN)
    rows = conn.execute(reading(wanted, failure_canary, "ix_failure_canary_open"))
    return [_canary(row) for row in rows]


def newest_canary(conn: sa.Connection, group_id: int) -> CanaryRetry | None:
    """The one of a group that began last."""
    of = failure_canary.c
    wanted = _SELECTED.where(of.group_id == group_id).order_by(of.started_at.desc()).limit(1)
    row = conn.execute(reading(wanted, failure_canary, "ix_failure_canary_of_group")).one_or_none()
    return None if row is None else _canary(row)


def lock_open_canary(conn: sa.Connection, group_id: int) -> CanaryRetry | None:
    """The one of a group that goes on, locked."""
    of = failure_canary.c
    wanted = _SELECTED.where(of.group_id == group_id, of.closed_key == OPEN).with_for_update()
    row = conn.execute(wanted).one_or_none()
    return None if row is None else _canary(row)


def lock_unchanged(conn: sa.Connection, canary: CanaryRetry) -> bool:
    """Lock it, unless somebody has changed it since it was read."""
    of = failure_canary.c
    wanted = sa.select(of.version).where(of.id == canary.id).with_for_update()
    return conn.execute(wanted).scalar_one_or_none() == canary.version


def write_canary(conn: sa.Connection, canary: CanaryRetry) -> None:
    """Write a locked one; its version rises."""
    row = _row(canary)
    row["version"] = canary.version + 1
    conn.execute(
        sa.update(failure_canary).where(failure_canary.c.id == row.pop("id")).values(**row)
    )


def states_of_runs(conn: sa.Connection, run_ids: Sequence[int]) -> dict[int, RunState]:
    """How these runs stand; those that are not in the ledger any more are left out."""
    rows = conn.execute(sa.select(run.c.id, run.c.state).where(run.c.id.in_(run_ids)))
    return {row.id: RunState(row.state) for row in rows}


def next_runs(conn: sa.Connection, canary: CanaryRetry, *, limit: int) -> list[tuple[int, int]]:
    """(scheduled_at, id) of the next runs to be done again, newest first.

    Those that somebody has retried are left out, and those that are not retried by themselves: of a
    fire its shards, of a workflow its steps.
    """
    of = run.c
    rows = conn.execute(
        reading(
            sa.select(of.scheduled_at, of.id)
            .where(
                of.error_id == canary.group_id,
                of.scheduled_at >= canary.since - DUE_BEFORE_MS,
                of.scheduled_at <= canary.before_at,
                sa.or_(of.scheduled_at < canary.before_at, of.id < canary.before_id),
                of.state.in_(_FAILURE_VALUES),
                of.ended_at >= canary.since,
                of.ended_at <= canary.started_at,
                of.fire_id.is_(None),
                of.origin.not_in((Origin.STEP.value, Origin.TRY.value)),
                IS_RETRIED == 0,
            )
            .order_by(of.scheduled_at.desc(), of.id.desc())
            .limit(limit),
            run,
            "ix_run_of_error",
        )
    )
    return [(row.scheduled_at, row.id) for row in rows]


def _row(canary: CanaryRetry) -> dict[str, Any]:
    return {name: getattr(canary, name) for name in _FIELDS} | {
        "state": canary.state.value,
        "reason": None if canary.reason is None else canary.reason.value,
        "open_runs": msgspec.json.encode(canary.open_runs).decode(),
        "closed_key": OPEN if canary.is_running else canary.id,
    }


def _canary(row: Any) -> CanaryRetry:
    return CanaryRetry(
        **row._asdict()
        | {
            "state": CanaryState(row.state),
            "reason": None if row.reason is None else CanaryReason(row.reason),
            "open_runs": _open_runs.decode(row.open_runs),
        }
    )
