"""Hourly figures of ended runs: counted from an index, kept when the runs themselves are gone.

Beside a row for each executor that had runs, every counted hour has a row of all executors
together, `EVERYBODY`. It says that and when the hour was counted, and spares people who see
everything the sum over hundreds of executors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.runs.time_histogram import TimeHistogram
from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.tables import run, run_stat
from tickwheel_admin.store.runs.outcome_counts import count_outcomes
from tickwheel_admin.store.runs.retries import count_made_good

HOUR_MS = 3_600_000
EVERYBODY = 0  # the executor id of the rows of all executors together
BUSY = 200_000  # runs of an hour beyond which it is counted in slices: statements have a limit
SLICES = 12
SAMPLE = 2_000  # runs of an hour whose times are looked at
_COLUMNS = [column.name for column in run_stat.columns]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStat:
    """How the runs of one hour of one executor, or of all of them, ended."""

    hour_at: int
    executor_id: int
    succeeded: int = 0
    failed: int = 0  # or lost
    timed_out: int = 0
    cancelled: int = 0
    made_good: int = 0  # failures that a retry by hand made up for, counted nowhere else
    delays: TimeHistogram = field(default_factory=TimeHistogram)  # until they started
    durations: TimeHistogram = field(default_factory=TimeHistogram)  # of those that succeeded

    @property
    def total(self) -> int:
        """All of them."""
        return self.succeeded + self.failed + self.timed_out + self.cancelled + self.made_good


# --- counting --------------------------------------------------------------------------------


def count_hour(conn: sa.Connection, hour_at: int) -> list[RunStat]:
    """The figures of one hour as the ledger has them now, one for each executor that had runs."""
    counts: dict[int, dict[RunState, int]] = {}
    slices = slices_of(conn, hour_at)
    made_good: dict[int, int] = {}
    for good in count_made_good(conn, from_at=hour_at, to_at=hour_at + HOUR_MS, bucket_ms=HOUR_MS):
        made_good[good.executor_id] = made_good.get(good.executor_id, 0) + good.runs
        counts[good.executor_id] = {}
    for from_at, to_at in slices:
        for each in count_outcomes(conn, from_at=from_at, to_at=to_at, bucket_ms=HOUR_MS):
            of_executor = counts.setdefault(each.executor_id, {})
            of_executor[each.state] = of_executor.get(each.state, 0) + each.runs
    total = sum(sum(of_executor.values()) for of_executor in counts.values())
    every = max(1, total // SAMPLE)
    by_executor: dict[int, list[SampledRun]] = {}
    for from_at, to_at in slices if counts else ():
        for sampled in sample_runs(conn, from_at=from_at, to_at=to_at, every=every):
            by_executor.setdefault(sampled.executor_id, []).append(sampled)
    return [
        RunStat(
            hour_at=hour_at,
            executor_id=executor_id,
            succeeded=ended.get(RunState.SUCCEEDED, 0),
            failed=ended.get(RunState.FAILED, 0) + ended.get(RunState.LOST, 0),
            timed_out=ended.get(RunState.TIMED_OUT, 0),
            cancelled=ended.get(RunState.CANCELLED, 0),
            made_good=made_good.get(executor_id, 0),
            delays=delays_of(by_executor.get(executor_id, ()), each=every),
            durations=durations_of(by_executor.get(executor_id, ()), each=every),
        )
        for executor_id, ended in sorted(counts.items())
    ]


def slices_of(conn: sa.Connection, hour_at: int) -> list[tuple[int, int]]:
    """The hour, in as many parts as one statement each can count in time; none without runs."""
    some = reading(
        sa.select(run.c.id)
        .where(run.c.scheduled_at >= hour_at, run.c.scheduled_at < hour_at + HOUR_MS)
        .limit(BUSY + 1),
        run,
        "ix_run_recent",
    ).subquery()
    runs = conn.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
    if not runs:
        return []
    step = HOUR_MS if runs <= BUSY else HOUR_MS // SLICES
    return [(at, at + step) for at in range(hour_at, hour_at + HOUR_MS, step)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledRun:
    """How long after its instant one run started, and how long it took if it succeeded."""

    scheduled_at: int
    executor_id: int
    delay_ms: int
    duration_ms: int | None


def delays_of(sample: Iterable[SampledRun], *, each: int = 1) -> TimeHistogram:
    """How late the runs started, each of which stands for so many."""
    return TimeHistogram.of((run.delay_ms for run in sample), each=each)


def durations_of(sample: Iterable[SampledRun], *, each: int = 1) -> TimeHistogram:
    """How long those that succeeded took."""
    lengths = (run.duration_ms for run in sample if run.duration_ms is not None)
    return TimeHistogram.of(lengths, each=each)


def sample_runs(
    conn: sa.Connection,
    *,
    from_at: int,
    to_at: int,
    every: int = 1,
    scope: Iterable[int] | None = None,
    limit: int = 2 * SAMPLE,
) -> list[SampledRun]:
    """Runs scheduled within a time, every n-th by its id; newest first.

    Counted are runs whose first attempt is their last: another try starts late on purpose. Tries of
    scripts are not, nor are backfills, which wait for slots on purpose. The jitter that a trigger
    asks for is no delay. What is sampled is found in `ix_run_recent` alone.
    """
    sampled = reading(
        sa.select(run.c.id)
        .where(run.c.scheduled_at >= from_at, run.c.scheduled_at < to_at)
        .order_by(run.c.scheduled_at.desc(), run.c.id.desc())
        .limit(limit),
        run,
        "ix_run_recent",
    )
    if every > 1:
        sampled = sampled.where(run.c.id % every == 0)
    if scope is not None:
        sampled = sampled.where(unindexed(run.c.executor_id).in_(sorted(scope)))
    chosen = sampled.subquery()
    return read_sample(conn, sa.select(*SAMPLED).join(chosen, chosen.c.id == run.c.id))


SAMPLED = (
    run.c.executor_id,
    run.c.state,
    run.c.scheduled_at,
    run.c.started_at,
    run.c.ended_at,
    run.c.jitter_ms,
)


def read_sample(conn: sa.Connection, chosen: sa.Select[Any]) -> list[SampledRun]:
    """Those of the chosen runs that tell how late runs start."""
    rows = conn.execute(
        chosen.where(
            run.c.started_at.is_not(None),
            run.c.attempt == 1,
            run.c.shard_index >= 0,
            run.c.origin.not_in((Origin.TRY.value, Origin.BACKFILL.value)),
        )
    )
    return [
        SampledRun(
            scheduled_at=row.scheduled_at,
            executor_id=row.executor_id,
            delay_ms=max(0, row.started_at - row.scheduled_at - (row.jitter_ms or 0)),
            duration_ms=max(0, row.ended_at - row.started_at)
            if row.state == RunState.SUCCEEDED.value and row.ended_at is not None
            else None,
        )
        for row in rows
    ]


def first_hour(conn: sa.Connection) -> int | None:
    """The hour of the oldest run that the ledger still has."""
    at = conn.execute(
        reading(
            sa.select(run.c.scheduled_at).order_by(run.c.scheduled_at, run.c.id).limit(1),
            run,
            "ix_run_recent",
        )
    ).scalar_one_or_none()
    return None if at is None else at - at % HOUR_MS


# --- keeping ---------------------------------------------------------------------------------


def write_stats(
    conn: sa.Connection, hour_at: int, counted: Sequence[RunStat], *, counted_at: int
) -> bool:
    """Store the count of an hour; False if a later count is stored already.

    An executor whose runs have become fewer keeps its former figures: since then some of them were
    deleted, and figures are what remains of those.
    """
    kept = read_hours(conn, [hour_at], executors=None)
    former = {each.executor_id: each for each in kept if each.executor_id != EVERYBODY}
    marks = counted_hours(conn, [hour_at])
    if marks.get(hour_at, -1) >= counted_at:
        return False
    merged = former | {
        each.executor_id: each
        for each in counted
        if each.executor_id not in former or each.total >= former[each.executor_id].total
    }
    rows = [added(hour_at, merged.values())]
    rows += [each for each in merged.values() if former.get(each.executor_id) != each]
    insert_rows(
        conn,
        run_stat,
        [_row(each, counted_at) for each in sorted(rows, key=lambda row: row.executor_id)],
        columns=_COLUMNS,
        replace_duplicates_of=("hour_at", "executor_id"),
    )
    return True


def added(hour_at: int, parts: Collection[RunStat]) -> RunStat:
    """Figures of several executors as one of all."""
    return RunStat(
        hour_at=hour_at,
        executor_id=EVERYBODY,
        succeeded=sum(each.succeeded for each in parts),
        failed=sum(each.failed for each in parts),
        timed_out=sum(each.timed_out for each in parts),
        cancelled=sum(each.cancelled for each in parts),
        made_good=sum(each.made_good for each in parts),
        delays=TimeHistogram.sum(each.delays for each in parts),
        durations=TimeHistogram.sum(each.durations for each in parts),
    )


def first_counted(conn: sa.Connection) -> int | None:
    """The oldest hour that figures are kept of."""
    return conn.execute(sa.select(sa.func.min(run_stat.c.hour_at))).scalar_one_or_none()


def remove_old_stats(conn: sa.Connection, *, before: int, hours: int) -> None:
    """Delete the figures of hours that begin before then, `hours` of them at a time."""
    oldest = first_counted(conn)
    if oldest is not None:
        until = min(before, oldest + hours * HOUR_MS)
        conn.execute(sa.delete(run_stat).where(run_stat.c.hour_at < until))


def _row(stat: RunStat, counted_at: int) -> Mapping[str, object]:
    return {
        "hour_at": stat.hour_at,
        "executor_id": stat.executor_id,
        "succeeded": stat.succeeded,
        "failed": stat.failed,
        "timed_out": stat.timed_out,
        "cancelled": stat.cancelled,
        "made_good": stat.made_good,
        "delays": stat.delays.to_json(),
        "durations": stat.durations.to_json(),
        "counted_at": counted_at,
    }


# --- reading ---------------------------------------------------------------------------------


def counted_hours(conn: sa.Connection, hours: Collection[int]) -> dict[int, int]:
    """When each of these hours was counted last; those that never were are left out."""
    rows = conn.execute(
        sa.select(run_stat.c.hour_at, run_stat.c.counted_at).where(
            run_stat.c.hour_at.in_(hours), run_stat.c.executor_id == EVERYBODY
        )
    )
    return {row.hour_at: row.counted_at for row in rows}


def count_hours(
    conn: sa.Connection, hours: Collection[int], *, executors: Collection[int]
) -> dict[int, tuple[int, int]]:
    """By executor: (successes, failures) of these hours together, found by their keys."""
    failed = run_stat.c.failed + run_stat.c.timed_out
    rows = conn.execute(
        sa.select(
            run_stat.c.executor_id,
            sa.func.sum(run_stat.c.succeeded).label("good"),
            sa.func.sum(failed).label("bad"),
        )
        .where(run_stat.c.hour_at.in_(hours), run_stat.c.executor_id.in_(sorted(executors)))
        .group_by(run_stat.c.executor_id)
    )
    return {row.executor_id: (int(row.good), int(row.bad)) for row in rows}


def read_hours(
    conn: sa.Connection, hours: Collection[int], *, executors: Collection[int] | None
) -> list[RunStat]:
    """Figures of these hours, found by their keys.

    Args:
        executors: ids, `EVERYBODY` among them or not; None: all there are.
    """
    statement = sa.select(run_stat).where(run_stat.c.hour_at.in_(hours))
    if executors is not None:
        statement = statement.where(run_stat.c.executor_id.in_(sorted(executors)))
    return [
        RunStat(
            hour_at=row.hour_at,
            executor_id=row.executor_id,
            succeeded=row.succeeded,
            failed=row.failed,
            timed_out=row.timed_out,
            cancelled=row.cancelled,
            made_good=row.made_good,
            delays=TimeHistogram.from_json(row.delays),
            durations=TimeHistogram.from_json(row.durations),
        )
        for row in conn.execute(statement)
    ]
