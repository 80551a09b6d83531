"""Runs for people: rows with their names, and one run with its attempts.

Lists (`store.runs.pages`) find the ids they show in an index first and read only those rows. Claim
tokens prove attempts and so are never read here; lists leave out `parameters` and `result`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, FINAL, Attempt, Run, RunState
from tickwheel_admin.store.database.run_conditions import IS_LIVE
from tickwheel_admin.store.database.tables import executor, job, node, run, run_attempt
from tickwheel_admin.store.runs.retries import RetryOutcome, retries_of
from tickwheel_admin.store.runs.rows import RUN_COLUMNS, run_from_row

MAX_SHARDS_SHOWN = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItem:
    """A run with the names it refers to."""

    run: Run
    job_name: str
    executor_name: str
    node_name: str | None  # of the last attempt, or where it must run
    progress: float | None  # 0..1, as its handler last said
    progress_text: str
    retried: RetryOutcome | None = None  # what does it again, by hand

    @property
    def is_made_good(self) -> bool:
        """It failed, and a retry by hand did its work after all."""
        return self.retried is not None and self.retried.succeeded and self.run.state in FAILURES


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """An attempt with its node's name."""

    attempt: Attempt
    node_name: str | None
    late_outcome: str | None = None  # what its node said after another attempt had begun
    late_message: str | None = None
    late_at: int | None = None


def read_items(conn: sa.Connection, run_ids: Sequence[int]) -> list[RunItem]:
    """These runs, in this order; those that are gone are left out."""
    if not run_ids:
        return []
    rows = conn.execute(
        _select_items(without=("claim_token", "parameters", "result")).where(run.c.id.in_(run_ids))
    )
    items = {item.run.id: item for item in _items(conn, rows)}
    return [items[run_id] for run_id in run_ids if run_id in items]


def get_run(conn: sa.Connection, run_id: int) -> RunItem | None:
    """One run, whole but for its claim token."""
    return get_runs(conn, [run_id]).get(run_id)


def get_runs(conn: sa.Connection, run_ids: Sequence[int]) -> dict[int, RunItem]:
    """Those of the runs that are there, by id, whole but for their claim tokens."""
    rows = conn.execute(_select_items(without=("claim_token",)).where(run.c.id.in_(run_ids)))
    return {item.run.id: item for item in _items(conn, rows)}


def shards_of_fire(conn: sa.Connection, fire_id: int) -> list[RunItem]:
    """The shards of a whole fire, by their index; at most `MAX_SHARDS_SHOWN`."""
    rows = conn.execute(
        _select_items(without=("claim_token", "parameters", "result"))
        .where(run.c.fire_id == fire_id)
        .order_by(run.c.shard_index)
        .limit(MAX_SHARDS_SHOWN)
    )
    return _items(conn, rows)


def shard_runs(conn: sa.Connection, fire_id: int) -> list[Run]:
    """The shards of a whole fire as they stand, by their index, read without a lock."""
    rows = conn.execute(
        sa.select(*_run_columns(("claim_token",)))
        .where(run.c.fire_id == fire_id)
        .order_by(run.c.shard_index)
    )
    return [run_from_row(row) for row in rows]


def live_items_of_node(conn: sa.Connection, node_id: int, *, limit: int) -> list[RunItem]:
    """What a node runs now, oldest first; reads the live part of an index."""
    rows = conn.execute(
        _select_items(without=("claim_token", "parameters", "result"))
        .where(IS_LIVE, run.c.node_id == node_id)
        .order_by(run.c.dispatched_at, run.c.id)
        .limit(limit)
    )
    return _items(conn, rows)


def requested_runs(conn: sa.Connection, job_ids: Iterable[int], request_key: str) -> list[RunItem]:
    """Runs of these jobs with this request key, at most one of each job."""
    rows = conn.execute(
        _select_items(without=("claim_token", "parameters", "result"))
        .where(run.c.job_id.in_(sorted(set(job_ids))), run.c.request_key == request_key)
        .order_by(run.c.id)
    )
    return _items(conn, rows)


def executor_of_run(conn: sa.Connection, run_id: int) -> int | None:
    """Whose run it is."""
    return conn.execute(sa.select(run.c.executor_id).where(run.c.id == run_id)).scalar_one_or_none()


def executors_of_runs(conn: sa.Connection, run_ids: Sequence[int]) -> dict[int, int]:
    """Whose runs they are; those that are gone are left out."""
    rows = conn.execute(sa.select(run.c.id, run.c.executor_id).where(run.c.id.in_(run_ids)))
    return {row.id: row.executor_id for row in rows}


def attempts_of_run(conn: sa.Connection, run_id: int, *, limit: int) -> list[AttemptView]:
    """Ended attempts that another try followed, oldest first."""
    rows = conn.execute(
        sa.select(run_attempt, node.c.name.label("node_name"))
        .outerjoin(node, node.c.id == run_attempt.c.node_id)
        .where(run_attempt.c.run_id == run_id)
        .order_by(run_attempt.c.attempt)
        .limit(limit)
    )
    return [
        AttemptView(
            attempt=_attempt_from_row(row),
            node_name=row.node_name,
            late_outcome=row.late_outcome,
            late_message=row.late_message,
            late_at=row.late_at,
        )
        for row in rows
    ]


def last_attempt(conn: sa.Connection, run_id: int) -> Attempt | None:
    """The newest of the ended attempts that another try followed."""
    row = conn.execute(
        sa.select(run_attempt)
        .where(run_attempt.c.run_id == run_id)
        .order_by(run_attempt.c.attempt.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else _attempt_from_row(row)


def get_attempt(conn: sa.Connection, run_id: int, attempt: int) -> Attempt | None:
    """One of the ended attempts that another try followed."""
    row = conn.execute(
        sa.select(run_attempt).where(
            run_attempt.c.run_id == run_id, run_attempt.c.attempt == attempt
        )
    ).one_or_none()
    return None if row is None else _attempt_from_row(row)


# --- rows ------------------------------------------------------------------------------------


def _select_items(*, without: Sequence[str]) -> sa.Select[Any]:
    return (
        sa.select(
            *_run_columns(without),
            run.c.progress,
            run.c.progress_text,
            job.c.name.label("job_name"),
            executor.c.name.label("executor_name"),
            node.c.name.label("node_name"),
        )
        .join(job, job.c.id == run.c.job_id)
        .join(executor, executor.c.id == run.c.executor_id)
        .outerjoin(node, node.c.id == sa.func.coalesce(run.c.node_id, run.c.pinned_node_id))
    )


def _run_columns(without: Sequence[str]) -> Iterator[sa.ColumnElement[Any]]:
    for name in RUN_COLUMNS:
        yield sa.null().label(name) if name in without else run.c[name]


def _items(conn: sa.Connection, rows: Iterable[Any]) -> list[RunItem]:
    items = [_item_from_row(row) for row in rows]
    # Nothing that goes on has been retried.
    retried = retries_of(conn, [item.run.id for item in items if item.run.state in FINAL])
    if not retried:
        return items
    return [replace(item, retried=retried.get(item.run.id)) for item in items]


def _item_from_row(row: Any) -> RunItem:
    return RunItem(
        run=run_from_row(row),
        job_name=row.job_name,
        executor_name=row.executor_name,
        node_name=row.node_name,
        progress=row.progress,
        progress_text=row.progress_text or "",
    )


def _attempt_from_row(row: Any) -> Attempt:
    return Attempt(
        run_id=row.run_id,
        attempt=row.attempt,
        state=RunState(row.state),
        node_id=row.node_id,
        claim_token=None,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        reason=row.reason,
        message=row.message,
        log_lines=row.log_lines,
        choice=row.choice,
        due_at=row.due_at,
    )
