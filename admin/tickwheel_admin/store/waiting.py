"""What waits at each executor: due runs that no node has taken yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.run import RunState
from tickwheel_admin.store.index_hints import reading
from tickwheel_admin.store.tables import executor, run

COUNT_LIMIT = 1_000  # a longer queue is told as this many
PER_STATEMENT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The due runs of one executor."""

    waiting: int  # at most `COUNT_LIMIT`
    since: int  # when the oldest of them was due


_OF_EXECUTOR = sa.and_(run.c.executor_id == executor.c.id, run.c.state == RunState.QUEUED.value)
_OLDEST = sa.select(
    executor.c.id,
    sa.select(sa.func.min(run.c.due_at)).where(_OF_EXECUTOR).scalar_subquery().label("since"),
).where(executor.c.id.in_(sa.bindparam("ids", expanding=True)))


def queues(conn: sa.Connection, executor_ids: Sequence[int], *, now: int) -> dict[int, Queue]:
    """By executor; those where nothing is due are left out.

    One look-up in `ix_run_due` for each executor, and at most `COUNT_LIMIT` entries of it for each
    where something waits.
    """
    if not executor_ids:
        return {}
    rows = conn.execute(_OLDEST, {"ids": list(executor_ids)})
    since = {row.id: row.since for row in rows if row.since is not None and row.since <= now}
    counts = _counts(conn, list(since), now=now)
    return {each: Queue(waiting=counts[each], since=at) for each, at in since.items()}


def _counts(conn: sa.Connection, executor_ids: Sequence[int], *, now: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for start in range(0, len(executor_ids), PER_STATEMENT):
        parts = [_count(each, now=now) for each in executor_ids[start : start + PER_STATEMENT]]
        statement = parts[0] if len(parts) == 1 else sa.union_all(*parts)
        counts |= {row.executor_id: row.runs for row in conn.execute(statement)}
    return counts


def _count(executor_id: int, *, now: int) -> sa.Select[int, int]:
    due = reading(
        sa.select(run.c.executor_id)
        .where(
            run.c.executor_id == executor_id,
            run.c.state == RunState.QUEUED.value,
            run.c.due_at <= now,
        )
        .limit(COUNT_LIMIT),
        run,
        "ix_run_due",
    ).subquery(f"due_{executor_id}")
    return sa.select(
        sa.literal(executor_id).label("executor_id"), sa.func.count().label("runs")
    ).select_from(due)
