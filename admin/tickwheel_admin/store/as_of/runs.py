"""Runs as they stood at a past instant: each query reads a bounded part of one index.

What was there at an instant is found in three places: the ledger around the instant, where nearly
all of it is; notes of ended runs that were there long (domain.as_of.spans); and what has not ended
to this day.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.as_of.runs import PastAttempt, PastRun
from tickwheel_admin.domain.as_of.spans import EARLY_MS, REACHES_MS, SHORT_MS
from tickwheel_admin.domain.runs.run import FAILURES, FINAL, Origin, RunState
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import OPEN, listed_as
from tickwheel_admin.store.database.tables import run, run_attempt, run_span

COUNT_LIMIT = 10_000  # more runs count as this many
MAX_SCANNED = 30_000  # entries of one range of an index that are looked at, newest first
MAX_FAILURES = 1_000
IDS_PER_STATEMENT = 1_000
NO_SLOTS_NEEDED = 0  # `pool_id` of runs of workflows
_ENDED = sorted(state.value for state in FINAL)
_COLUMNS = (
    run.c.id,
    run.c.executor_id,
    run.c.job_id,
    run.c.job_revision,
    run.c.trigger_id,
    run.c.fire_id,
    run.c.is_part,
    run.c.pool_id,
    run.c.origin,
    run.c.state,
    run.c.reason,
    run.c.scheduled_at,
    run.c.jitter_ms,
    run.c.created_at,
    run.c.attempt,
    run.c.node_id,
    run.c.claim_token.is_not(None).label("has_token"),
    run.c.dispatched_at,
    run.c.started_at,
    run.c.ended_at,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastScope:
    """Whose runs are asked about."""

    executors: frozenset[int] | None = None  # None: of all
    job_id: int | None = None  # None: of all jobs of the executors


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRuns:
    """Runs that were there."""

    runs: Sequence[PastRun]  # newest instant first
    is_cut: bool  # there may have been more


def runs_there(conn: sa.Connection, scope: PastScope, *, at: int) -> FoundRuns:
    """The runs that were written and had not ended at an instant, at most `COUNT_LIMIT`."""
    found: dict[int, PastRun] = {}
    is_cut = False
    for part, part_is_cut in (
        _around(conn, scope, at),
        _noted(conn, scope, at),
        _open(conn, scope, at),
    ):
        found |= {each.id: each for each in part if each.was_there(at)}
        is_cut = is_cut or part_is_cut
    newest = sorted(found.values(), key=lambda each: (-each.scheduled_at, -each.id))
    return FoundRuns(runs=newest[:COUNT_LIMIT], is_cut=is_cut or len(newest) > COUNT_LIMIT)


def _around(conn: sa.Connection, scope: PastScope, at: int) -> tuple[list[PastRun], bool]:
    """Those whose instant was shortly before, by the order of the ledger."""
    low, high = at - SHORT_MS, at + EARLY_MS
    floor = conn.execute(
        _in_order(scope, [run.c.scheduled_at], low, high).offset(MAX_SCANNED).limit(1)
    ).scalar_one_or_none()
    wanted = _in_order(scope, _COLUMNS, low if floor is None else floor, high).where(
        run.c.created_at <= at, _had_not_ended(at)
    )
    rows = conn.execute(_of(scope, wanted).limit(COUNT_LIMIT + 1)).all()
    return [_past_run(row) for row in rows], floor is not None or len(rows) > COUNT_LIMIT


def _noted(conn: sa.Connection, scope: PastScope, at: int) -> tuple[list[PastRun], bool]:
    """Those that were there long, by the notes of their ends."""
    parts = []
    for length, reach in enumerate(REACHES_MS):
        part = sa.select(run_span.c.run_id.label("id")).where(
            run_span.c.length == length, run_span.c.ended_at > at, run_span.c.from_at <= at
        )
        if reach is not None:
            part = part.where(run_span.c.ended_at <= at + reach)
        parts.append(_noted_of(scope, part, "ix_run_span_over").limit(COUNT_LIMIT + 1))
    ids = sorted(set(_of_each(conn, parts)))
    return runs_of_ids(conn, ids[: COUNT_LIMIT + 1]), len(ids) > COUNT_LIMIT


def _open(conn: sa.Connection, scope: PastScope, at: int) -> tuple[list[PastRun], bool]:
    """Those that have not ended to this day, and whose instant is not near."""
    far = sa.or_(run.c.scheduled_at < at - SHORT_MS, run.c.scheduled_at > at + EARLY_MS)
    floor = conn.execute(
        _open_in_order(scope, [run.c.scheduled_at], far).offset(MAX_SCANNED).limit(1)
    ).scalar_one_or_none()
    # What was written later is told apart by the database: of a long queue that is nearly all.
    wanted = _open_in_order(scope, _COLUMNS, far).where(run.c.created_at <= at)
    if floor is not None:
        wanted = wanted.where(run.c.scheduled_at > floor)
    if scope.job_id is not None:
        wanted = wanted.where(unindexed(run.c.job_id) == scope.job_id)
    rows = conn.execute(wanted.limit(COUNT_LIMIT + 1)).all()
    found = [each for each in map(_past_run, rows) if each.was_there(at)]
    return found, floor is not None or len(rows) > COUNT_LIMIT


def _open_in_order(
    scope: PastScope, columns: Sequence[Any], far: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    statement = sa.select(*columns).where(run.c.listed_as == OPEN, far)
    if scope.executors is not None:
        statement = statement.where(unindexed(run.c.executor_id).in_(sorted(scope.executors)))
    ordered = statement.order_by(run.c.scheduled_at.desc(), run.c.id.desc())
    return reading(ordered, run, "ix_run_by_state")


def failed_between(
    conn: sa.Connection, scope: PastScope, *, after: int, until: int
) -> tuple[list[PastRun], bool]:
    """Runs that failed after one instant and up to another, newest end first; and if there may be
    more. What a fire or a workflow tells of is left out.
    """
    failed = sorted(state.value for state in FAILURES)
    parts = []
    for state in sorted(FAILURES):
        part = sa.select(run.c.id).where(
            listed_as(state),
            run.c.scheduled_at > after - SHORT_MS,
            run.c.scheduled_at <= until,
            run.c.is_part.is_(False),
            run.c.ended_at > after,
            run.c.ended_at <= until,
        )
        if scope.job_id is not None:
            part = reading(part.where(run.c.job_id == scope.job_id), run, "ix_run_of_job")
        else:
            part = reading(part, run, "ix_run_by_state")
            if scope.executors is not None:
                part = part.where(unindexed(run.c.executor_id).in_(sorted(scope.executors)))
        newest = part.order_by(run.c.scheduled_at.desc(), run.c.id.desc())
        parts.append(newest.limit(MAX_FAILURES + 1))
    noted = (
        sa.select(run_span.c.run_id.label("id"))
        .join(run, run.c.id == run_span.c.run_id)
        .where(
            run_span.c.ended_at > after,
            run_span.c.ended_at <= until,
            unindexed(run.c.state).in_(failed),
            run.c.is_part.is_(False),
        )
        .order_by(run_span.c.ended_at.desc())
        .limit(MAX_FAILURES + 1)
    )
    parts.append(_noted_of(scope, noted, "ix_run_span_old"))
    found = runs_of_ids(conn, sorted(set(_of_each(conn, parts))))
    newest_end = sorted(found, key=lambda each: (-(each.ended_at or 0), -each.id))
    return newest_end[:MAX_FAILURES], len(newest_end) > MAX_FAILURES


def runs_of_minute(
    conn: sa.Connection, job_id: int, *, from_at: int, to_at: int, limit: int
) -> list[PastRun]:
    """Runs of a job whose instant lies in a time, in its order; no shards."""
    wanted = (
        sa.select(*_COLUMNS)
        .where(
            run.c.job_id == job_id,
            run.c.scheduled_at >= from_at,
            run.c.scheduled_at < to_at,
            run.c.fire_id.is_(None),
        )
        .order_by(run.c.scheduled_at, run.c.id)
        .limit(limit)
    )
    return [_past_run(row) for row in conn.execute(reading(wanted, run, "ix_run_of_job"))]


def runs_of_ids(conn: sa.Connection, ids: Sequence[int]) -> list[PastRun]:
    """Those of the runs that there still are."""
    found = []
    wanted = sa.select(*_COLUMNS).where(among(run.c.id, "ids"))
    for first in range(0, len(ids), IDS_PER_STATEMENT):
        rows = conn.execute(wanted, {"ids": list(ids[first : first + IDS_PER_STATEMENT])})
        found += [_past_run(row) for row in rows]
    return found


def attempts_before(conn: sa.Connection, runs: Iterable[PastRun]) -> dict[int, list[PastAttempt]]:
    """By run, the attempts that ended while it went on."""
    ids = [each.id for each in runs if each.attempt > 1 or (each.attempt and not _is_first(each))]
    found: defaultdict[int, list[PastAttempt]] = defaultdict(list)
    columns = (
        run_attempt.c.run_id,
        run_attempt.c.attempt,
        run_attempt.c.node_id,
        run_attempt.c.dispatched_at,
        run_attempt.c.started_at,
        run_attempt.c.ended_at,
    )
    wanted = sa.select(*columns).where(among(run_attempt.c.run_id, "ids"))
    for first in range(0, len(ids), IDS_PER_STATEMENT):
        for row in conn.execute(wanted, {"ids": ids[first : first + IDS_PER_STATEMENT]}):
            found[row.run_id].append(
                PastAttempt(
                    attempt=row.attempt,
                    node_id=row.node_id,
                    dispatched_at=row.dispatched_at,
                    started_at=row.started_at,
                    ended_at=row.ended_at,
                )
            )
    return found


def messages_of(conn: sa.Connection, run_ids: Collection[int]) -> dict[int, str]:
    """What runs said when they failed."""
    wanted = sa.select(run.c.id, run.c.message).where(run.c.id.in_(sorted(run_ids)))
    return {row.id: row.message for row in conn.execute(wanted) if row.message}


# One that ended while it waited for its next try tells when that was, and not when the try ended.
_MAY_HAVE_WAITED = (RunState.QUEUED, RunState.SKIPPED, RunState.CANCELLED)


def _is_first(each: PastRun) -> bool:
    """Its row tells of its only attempt."""
    waited = each.state in _MAY_HAVE_WAITED or each.reason == "node_gone"
    return each.is_claimed and not waited


def _in_order(scope: PastScope, columns: Sequence[Any], low: int, high: int) -> sa.Select[Any]:
    """Rows between two instants, newest first, by the index that has them in this order."""
    wanted = (
        sa.select(*columns)
        .where(run.c.scheduled_at >= low, run.c.scheduled_at <= high)
        .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
    )
    if scope.job_id is not None:
        return reading(wanted.where(run.c.job_id == scope.job_id), run, "ix_run_of_job")
    return reading(wanted, run, "ix_run_recent")


def _of(scope: PastScope, wanted: sa.Select[Any]) -> sa.Select[Any]:
    if scope.executors is None or scope.job_id is not None:
        return wanted
    return wanted.where(unindexed(run.c.executor_id).in_(sorted(scope.executors)))


def _of_each(conn: sa.Connection, parts: Sequence[sa.Select[Any]]) -> list[int]:
    """The ids of several selects, each with a limit of its own, by one statement."""
    every = sa.union_all(*(sa.select(part.subquery().c.id) for part in parts))
    return list(conn.execute(every).scalars())


def _noted_of(scope: PastScope, wanted: sa.Select[Any], index: str) -> sa.Select[Any]:
    wanted = reading(wanted, run_span, index)
    if scope.job_id is not None:
        return wanted.where(run_span.c.job_id == scope.job_id)
    if scope.executors is None:
        return wanted
    return wanted.where(run_span.c.executor_id.in_(sorted(scope.executors)))


def _had_not_ended(at: int) -> sa.ColumnElement[bool]:
    # Of a run that is to be tried again, `ended_at` is its last try's.
    return sa.or_(unindexed(run.c.state).not_in(_ENDED), run.c.ended_at > at)


def _past_run(row: Any) -> PastRun:
    due_at = row.scheduled_at + (row.jitter_ms or 0)
    return PastRun(
        id=row.id,
        executor_id=row.executor_id,
        job_id=row.job_id,
        job_revision=row.job_revision,
        trigger_id=row.trigger_id,
        fire_id=row.fire_id,
        is_part=bool(row.is_part),
        takes_slot=row.pool_id != NO_SLOTS_NEEDED and row.node_id is not None,
        state=RunState(row.state),
        reason=row.reason,
        scheduled_at=row.scheduled_at,
        due_at=row.created_at if row.origin == Origin.MISFIRE.value else due_at,
        created_at=row.created_at,
        attempt=row.attempt,
        node_id=row.node_id,
        is_claimed=bool(row.has_token) or row.node_id is None or row.started_at is not None,
        dispatched_at=row.dispatched_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )
