"""What waits at each executor: due runs that no node has taken yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.run import PUT_OFF, PUT_OFF_MS, RunState
from tickwheel_admin.store.index_hints import reading
from tickwheel_admin.store.tables import executor, run

COUNT_LIMIT = 1_000  # a longer queue is told as this many
PER_STATEMENT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The due runs of one executor, those among them that are put off for a moment."""

    waiting: int  # at most `COUNT_LIMIT`
    since: int  # when the oldest of them could have started


_OF_EXECUTOR = sa.and_(run.c.executor_id == executor.c.id, run.c.state == RunState.QUEUED.value)
_NEXT = sa.select(
    executor.c.id,
    sa.select(sa.func.min(run.c.due_at)).where(_OF_EXECUTOR).scalar_subquery().label("due_at"),
).where(executor.c.id.in_(sa.bindparam("ids", expanding=True)))


def queues(conn: sa.Connection, executor_ids: Sequence[int], *, now: int) -> dict[int, Queue]:
    """By executor; those where nothing is due are left out.

    One look-up in `ix_run_due` for each executor, and at most `COUNT_LIMIT` entries of it, and as
    many runs, for each where something waits.
    """
    if not executor_ids:
        return {}
    rows = conn.execute(_NEXT, {"ids": list(executor_ids)})
    next_due = {
        row.id: row.due_at
        for row in rows
        if row.due_at is not None and row.due_at <= now + PUT_OFF_MS
    }
    due = _counts(conn, [_due(each, now=now) for each, at in next_due.items() if at <= now])
    aside = _counts(conn, [_put_off(each, now=now) for each in next_due])
    return {
        each: Queue(
            waiting=min(due.get(each, _NONE).waiting + aside.get(each, _NONE).waiting, COUNT_LIMIT),
            since=min(part[each].since for part in (due, aside) if each in part),
        )
        for each in next_due
        if each in due or each in aside
    }


def first_try_put_off(executor_id: int, *, now: int, most: int) -> sa.Select[int]:
    """Ids of runs that no node could take a moment ago, though they are due; looks at `most` runs.

    They are due a little later than now, again and again; what is planned ahead is nearer.
    """
    ahead = reading(
        sa.select(run.c.id, run.c.reason, run.c.tries)
        .where(
            run.c.executor_id == executor_id,
            run.c.state == RunState.QUEUED.value,
            run.c.due_at > now,
            run.c.due_at <= now + PUT_OFF_MS,
        )
        .order_by(run.c.due_at.desc())
        .limit(most),
        run,
        "ix_run_due",
    ).subquery(f"ahead_{executor_id}")
    return sa.select(ahead.c.id).where(ahead.c.reason.in_(sorted(PUT_OFF)), ahead.c.tries == 0)


_NONE = Queue(waiting=0, since=0)


def _counts(conn: sa.Connection, parts: Sequence[sa.Select[int, int, int]]) -> dict[int, Queue]:
    """What waits, by executor; a few statements in all."""
    counts: dict[int, Queue] = {}
    for start in range(0, len(parts), PER_STATEMENT):
        some = parts[start : start + PER_STATEMENT]
        statement = some[0] if len(some) == 1 else sa.union_all(*some)
        counts |= {
            row.executor_id: Queue(waiting=row.runs, since=row.since)
            for row in conn.execute(statement)
            if row.runs
        }
    return counts


def _due(executor_id: int, *, now: int) -> sa.Select[int, int, int]:
    due = reading(
        sa.select(run.c.due_at)
        .where(
            run.c.executor_id == executor_id,
            run.c.state == RunState.QUEUED.value,
            run.c.due_at <= now,
        )
        .order_by(run.c.due_at)
        .limit(COUNT_LIMIT),
        run,
        "ix_run_due",
    ).subquery(f"due_{executor_id}")
    return _summary(executor_id, due.c.due_at)


def _put_off(executor_id: int, *, now: int) -> sa.Select[int, int, int]:
    instant = run.c.scheduled_at + sa.func.coalesce(run.c.jitter_ms, 0)
    runs = (
        sa.select(
            sa.case((instant > run.c.created_at, instant), else_=run.c.created_at).label("at")
        )
        .where(run.c.id.in_(first_try_put_off(executor_id, now=now, most=COUNT_LIMIT)))
        .subquery(f"aside_{executor_id}")
    )
    return _summary(executor_id, runs.c.at)


def _summary(executor_id: int, since: sa.ColumnElement[int]) -> sa.Select[int, int, int]:
    return sa.select(
        sa.literal(executor_id).label("executor_id"),
        sa.func.count().label("runs"),
        sa.func.min(since).label("since"),
    )
