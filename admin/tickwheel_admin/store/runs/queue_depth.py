"""What waits at each executor: due runs that no node has taken yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import PUT_OFF, PUT_OFF_MS
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.run_conditions import queued_for
from tickwheel_admin.store.database.tables import executor, run

COUNT_LIMIT = 1_000  # a longer queue counts as this many


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """The due runs of one executor, those among them that are put off for a moment."""

    waiting: int  # at most `COUNT_LIMIT`
    since: int  # when the oldest of them could have started


_OF_EXECUTOR = queued_for(executor.c.id)
_IDS: sa.BindParameter[int] = sa.bindparam("ids", expanding=True)
_AT = sa.bindparam("now", type_=sa.BigInteger())
_NEXT = sa.select(
    executor.c.id,
    sa.select(sa.func.min(run.c.due_at)).where(_OF_EXECUTOR).scalar_subquery().label("due_at"),
).where(executor.c.id.in_(_IDS))


def queue_depths(
    conn: sa.Connection, executor_ids: Sequence[int], *, now: int
) -> dict[int, QueueDepth]:
    """By executor; those where nothing is due are left out.

    One look-up in `ix_run_due` for each executor, and at most `COUNT_LIMIT` entries of it, and as
    many runs, for each where something waits.
    """
    if not executor_ids:
        return {}
    rows = conn.execute(_NEXT, {"ids": list(executor_ids)})
    near = [row.id for row in rows if row.due_at is not None and row.due_at <= now + PUT_OFF_MS]
    if not near:
        return {}
    return {
        row.id: QueueDepth(
            waiting=min(row.due + row.aside, COUNT_LIMIT),
            since=min(at for at in (row.due_since, row.aside_since) if at is not None),
        )
        for row in conn.execute(_WAITING, {"ids": near, "now": now})
        if row.due or row.aside
    }


def first_try_put_off(executor_id: int, *, now: int, most: int) -> sa.Select[int]:
    """Ids of runs that no node could take a moment ago, though they are due; looks at `most` runs.

    They are due a little later than now, again and again; what is planned ahead is nearer.
    """
    ahead = reading(
        sa.select(run.c.id, run.c.reason, run.c.tries)
        .where(
            queued_for(executor_id),
            run.c.due_at > now,
            run.c.due_at <= now + PUT_OFF_MS,
        )
        .order_by(run.c.due_at.desc())
        .limit(most),
        run,
        "ix_run_due",
    ).subquery(f"ahead_{executor_id}")
    return sa.select(ahead.c.id).where(ahead.c.reason.in_(sorted(PUT_OFF)), ahead.c.tries == 0)


def _one(column: sa.ColumnElement[int], *where: sa.ColumnElement[bool]) -> sa.Select[int]:
    """A query for each executor of the statement around it."""
    return reading(
        sa.select(column).select_from(run).where(*where).correlate(executor), run, "ix_run_due"
    )


def _waiting() -> sa.Select[int, int, int, int | None, int | None]:
    """What waits at each of some executors. Made once: its text does not depend on how many."""
    due = sa.and_(_OF_EXECUTOR, run.c.due_at <= _AT)
    # Where the count stops: an entry that far from the first one; none, when there are fewer.
    last = _one(run.c.due_at, due).order_by(run.c.due_at).limit(1).offset(COUNT_LIMIT - 1)
    count = _one(sa.func.count(), due).scalar_subquery()
    ahead = sa.and_(_OF_EXECUTOR, run.c.due_at > _AT, run.c.due_at <= _AT + PUT_OFF_MS)
    first = _one(run.c.due_at, ahead).order_by(run.c.due_at.desc()).limit(1).offset(COUNT_LIMIT - 1)
    aside = sa.and_(
        ahead,
        run.c.due_at >= sa.func.coalesce(first.scalar_subquery(), _AT),
        run.c.reason.in_(sorted(PUT_OFF)),
        run.c.tries == 0,
    )
    instant = run.c.scheduled_at + sa.func.coalesce(run.c.jitter_ms, 0)
    since = sa.case((instant > run.c.created_at, instant), else_=run.c.created_at)
    return sa.select(
        executor.c.id,
        sa.case((last.scalar_subquery().is_not(None), COUNT_LIMIT), else_=count).label("due"),
        _one(sa.func.count(), aside).scalar_subquery().label("aside"),
        _one(sa.func.min(run.c.due_at), due).scalar_subquery().label("due_since"),
        _one(sa.func.min(since), aside).scalar_subquery().label("aside_since"),
    ).where(executor.c.id.in_(_IDS))


_WAITING = _waiting()
