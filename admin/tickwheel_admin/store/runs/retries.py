"""What does a run again: links from a run to the retries by hand of it, and how they ended.

A retry of a retry is linked with the first run, too, a new retry with the earlier ones that came to
nothing, and with a whole fire its failed shards: whichever of them one looks at, its links say
whether its work was done in the end. Only runs that
are retries write here, so the hot path pays nothing; and a link outlives the retry's own row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import FAILURES, FINAL, Move, Run, RunState
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import STANDS_ALONE
from tickwheel_admin.store.database.tables import run, run_retry

_FAILURE_VALUES = sorted(state.value for state in FAILURES)
SUCCEEDED = RunState.SUCCEEDED.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLink:
    """A run that does another one again."""

    id: int
    state: RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOutcome:
    """What became of a run by its retries."""

    last: RetryLink  # the one that succeeded, else one that goes on, else the newest
    ids: tuple[int, ...]  # of all of them, ascending
    some_go_on: bool  # one has not ended, though another may have succeeded

    @property
    def succeeded(self) -> bool:
        """The work was done after all."""
        return self.last.state is RunState.SUCCEEDED

    @property
    def goes_on(self) -> bool:
        """It may still be done."""
        return self.last.state not in FINAL


# Of a row of `run`: 1 or 0. Not EXISTS, for which PostgreSQL would read all retries there are.
def _has(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
    some = sa.select(sa.literal(1)).where(run_retry.c.run_id == run.c.id, *conditions).limit(1)
    return sa.func.coalesce(some.correlate(run).scalar_subquery(), 0)


IS_RETRIED = _has()
IS_MADE_GOOD = _has(run_retry.c.state == SUCCEEDED)


# --- writing ---------------------------------------------------------------------------------


def note_retry(
    conn: sa.Connection, ended: Run, *, retry_id: int, steps: Mapping[int, int] | None = None
) -> None:
    """Link an ended run with the new one, and with it the others that were to do the same work.

    Those are the runs that it was a retry of itself, and retries of it that came to nothing.

    Args:
        steps: of a workflow's run: runs of steps that failed and are done again, by id, with
            their instants.
    """
    scheduled = {
        row.run_id: row.scheduled_at
        for row in conn.execute(
            sa.select(run_retry.c.run_id, run_retry.c.scheduled_at).where(
                run_retry.c.retry_id == ended.id
            )
        )
    }
    scheduled[ended.id] = ended.scheduled_at
    if ended.is_fire:
        scheduled |= dict.fromkeys(_failed_shards(conn, [ended.id]), ended.scheduled_at)
    in_vain = sa.select(run.c.id, run.c.scheduled_at).join(
        run_retry, run_retry.c.retry_id == run.c.id
    )
    for row in conn.execute(
        in_vain.where(
            run_retry.c.run_id.in_(sorted(scheduled)),
            run.c.state.in_(sorted(state.value for state in FINAL - {RunState.SUCCEEDED})),
        )
    ):
        scheduled[row.id] = row.scheduled_at
    scheduled |= steps or {}
    _insert(conn, scheduled, retry_id=retry_id, state=None, ended_at=None)


def note_ends(conn: sa.Connection, moves: Iterable[Move]) -> None:
    """Say of retries that end how they did; late results change that, too."""
    by_state: defaultdict[RunState, list[Run]] = defaultdict(list)
    for move in moves:
        after = move.after
        if (
            after.retry_of is not None
            and after.fire_id is None
            and after.state in FINAL
            and after.state is not move.before.state
        ):
            by_state[after.state].append(after)
    for state, ended in by_state.items():
        for each in ended:
            conn.execute(
                sa.update(run_retry)
                .where(run_retry.c.retry_id == each.id)
                .values(state=state.value, ended_at=each.ended_at)
            )
    for each in by_state.get(RunState.SUCCEEDED, ()):
        _make_fires_good(conn, each)


def _make_fires_good(conn: sa.Connection, retry: Run) -> None:
    """A whole fire whose failed shards were all done again, one by one, was done, too."""
    fire_ids = list(
        conn.execute(
            sa.select(run.c.fire_id)
            .join(run_retry, run_retry.c.run_id == run.c.id)
            .where(run_retry.c.retry_id == retry.id, run.c.fire_id.is_not(None))
            .distinct()
        ).scalars()
    )
    if not fire_ids:
        return
    fires = conn.execute(
        sa.select(run.c.id, run.c.scheduled_at).where(
            run.c.id.in_(fire_ids), run.c.state.in_(_FAILURE_VALUES)
        )
    )
    scheduled = {row.id: row.scheduled_at for row in fires}
    left = conn.execute(
        sa.select(run.c.fire_id)
        .where(
            run.c.fire_id.in_(sorted(scheduled)),
            run.c.state.in_(_FAILURE_VALUES),
            IS_MADE_GOOD == 0,
        )
        .distinct()
    ).scalars()
    for fire_id in left:
        del scheduled[fire_id]
    if not scheduled:
        return
    earlier = conn.execute(
        sa.select(run_retry.c.run_id, run_retry.c.scheduled_at).where(
            run_retry.c.retry_id.in_(sorted(scheduled))
        )
    )
    scheduled |= {row.run_id: row.scheduled_at for row in earlier}
    _insert(conn, scheduled, retry_id=retry.id, state=retry.state.value, ended_at=retry.ended_at)


def _insert(
    conn: sa.Connection,
    scheduled: Mapping[int, int],
    *,
    retry_id: int,
    state: str | None,
    ended_at: int | None,
) -> None:
    rows = [
        {
            "run_id": run_id,
            "retry_id": retry_id,
            "scheduled_at": scheduled_at,
            "state": state,
            "ended_at": ended_at,
        }
        for run_id, scheduled_at in sorted(scheduled.items())
    ]
    insert_rows(
        conn,
        run_retry,
        rows,
        columns=("run_id", "retry_id", "scheduled_at", "state", "ended_at"),
        replace_duplicates_of=("run_id", "retry_id"),
    )


def _failed_shards(conn: sa.Connection, fire_ids: Sequence[int]) -> Sequence[int]:
    return (
        conn.execute(
            sa.select(run.c.id).where(run.c.fire_id.in_(fire_ids), run.c.state.in_(_FAILURE_VALUES))
        )
        .scalars()
        .all()
    )


# --- reading ---------------------------------------------------------------------------------


def retries_of(conn: sa.Connection, run_ids: Collection[int]) -> dict[int, RetryOutcome]:
    """What became of these runs; those without a retry are left out."""
    if not run_ids:
        return {}
    rows = conn.execute(
        sa.select(
            run_retry.c.run_id,
            run_retry.c.retry_id,
            sa.func.coalesce(run_retry.c.state, run.c.state, RunState.CANCELLED.value).label("how"),
            run.c.created_at,
        )
        .outerjoin(run, run.c.id == run_retry.c.retry_id)
        .where(run_retry.c.run_id.in_(sorted(run_ids)))
    )
    found: defaultdict[int, list[tuple[tuple[bool, bool, int, int], RetryLink]]] = defaultdict(list)
    for row in rows:
        state = RunState(row.how)
        rank = (state is RunState.SUCCEEDED, state not in FINAL, row.created_at or 0, row.retry_id)
        found[row.run_id].append((rank, RetryLink(id=row.retry_id, state=state)))
    return {
        run_id: RetryOutcome(
            last=max(ranked, key=lambda each: each[0])[1],
            ids=tuple(sorted(link.id for _, link in ranked)),
            some_go_on=any(link.state not in FINAL for _, link in ranked),
        )
        for run_id, ranked in found.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeGood:
    """How many failures of one executor in one bucket of time a retry made up for."""

    start_at: int
    executor_id: int
    state: RunState
    runs: int


def count_made_good(
    conn: sa.Connection, *, from_at: int, to_at: int, bucket_ms: int
) -> list[MadeGood]:
    """Of failures scheduled within a time, by their own instant and state; no shards, no steps.

    Reads a range of `ix_run_retry_made_good` and the runs there: as many as were retried.
    """
    start = (run_retry.c.scheduled_at - run_retry.c.scheduled_at % bucket_ms).label("start_at")
    rows = conn.execute(
        reading(
            sa.select(
                start,
                run.c.executor_id,
                run.c.state,
                sa.func.count(sa.distinct(run_retry.c.run_id)).label("runs"),
            )
            .join(run, run.c.id == run_retry.c.run_id)
            .where(
                run_retry.c.state == SUCCEEDED,
                run_retry.c.scheduled_at >= from_at,
                run_retry.c.scheduled_at < to_at,
                run.c.scheduled_at >= from_at,
                run.c.scheduled_at < to_at,
                run.c.state.in_(_FAILURE_VALUES),
                STANDS_ALONE,
            )
            .group_by(start, run.c.executor_id, run.c.state),
            run_retry,
            "ix_run_retry_made_good",
        )
    )
    return [
        MadeGood(
            start_at=int(row.start_at),
            executor_id=row.executor_id,
            state=RunState(row.state),
            runs=row.runs,
        )
        for row in rows
    ]


def hours_made_good(conn: sa.Connection, *, since: int, hour_ms: int) -> dict[int, int]:
    """Hours of failures that retries made up for since then, with the time of the last retry."""
    hour = (run_retry.c.scheduled_at - run_retry.c.scheduled_at % hour_ms).label("hour_at")
    rows = conn.execute(
        reading(
            sa.select(hour, sa.func.max(run_retry.c.ended_at).label("last_at"))
            .where(run_retry.c.ended_at >= since, unindexed(run_retry.c.state) == SUCCEEDED)
            .group_by(hour),
            run_retry,
            "ix_run_retry_ended",
        )
    )
    return {int(row.hour_at): row.last_at for row in rows}
