"""The run ledger's hot path: fires in, claims, moves. Lists for people are in `run_lists`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import structs

from tickwheel_admin.domain.runs.error import RunError, error_of
from tickwheel_admin.domain.runs.run import (
    FAILURES,
    FINAL,
    LIVE,
    MOVES,
    Attempt,
    Move,
    Run,
    RunState,
)
from tickwheel_admin.store.database.batch import insert_values, update_rows, update_values
from tickwheel_admin.store.database.clock import statement_began
from tickwheel_admin.store.database.database import Repeat
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.index_hints import reading, unindexed
from tickwheel_admin.store.database.run_conditions import IS_QUEUED
from tickwheel_admin.store.database.tables import executor, run, run_attempt
from tickwheel_admin.store.executors.node_slots import change_slots
from tickwheel_admin.store.runs.errors import insert_errors
from tickwheel_admin.store.runs.retries import note_ends

RUN_COLUMNS = Run.__struct_fields__
SELECTED_RUN = [run.c[name] for name in RUN_COLUMNS]
_ATTEMPT_COLUMNS = Attempt.__struct_fields__
# What a move may change; the rest of a row never changes.
_MOVED = (
    "state",
    "due_at",
    "attempt",
    "tries",
    "node_id",
    "claim_token",
    "deadline_at",
    "dispatched_at",
    "started_at",
    "ended_at",
    "cancel_requested_at",
    "cancel_reason",
    "cancelled_by",
    "blocking_key",
    "shard_total",
    "reason",
    "message",
    "result",
    "log_lines",
    "choice",
)
_MOVED_VALUES = attrgetter(*_MOVED)
_ATTEMPT_VALUES = attrgetter(*_ATTEMPT_COLUMNS)
LIVE_VALUES = sorted(state.value for state in LIVE)


def run_from_row(row: Any) -> Run:
    """A domain run from a row that has at least RUN_COLUMNS."""
    return msgspec.convert([getattr(row, name) for name in RUN_COLUMNS], Run)


def run_from_selected(row: sa.Row[Any]) -> Run:
    """A run from a row of `SELECTED_RUN`: by position, as names cost more than the decoding."""
    return msgspec.convert(tuple(row), Run)


_all_values = attrgetter(*RUN_COLUMNS)


def read_runs(
    conn: sa.Connection, statement: sa.Select[Any], parameters: Mapping[str, Any]
) -> list[Run]:
    """The runs that a select of `SELECTED_RUN` finds."""
    if conn.dialect.driver != "pymysql":
        return [run_from_selected(row) for row in conn.execute(statement, parameters)]
    # It takes each of forty columns apart in Python: one column with all of them is read in a
    # third of the time.
    texts = list(conn.execute(_as_arrays(statement), parameters).scalars())
    if None in texts:  # one is longer than the server's max_allowed_packet
        return [run_from_selected(row) for row in conn.execute(statement, parameters)]
    return [_decode_run(text) for text in texts]


_decode_run = msgspec.json.Decoder(Run).decode


@lru_cache(maxsize=50)
def _as_arrays(statement: sa.Select[Any]) -> sa.Select[Any]:
    return statement.with_only_columns(sa.func.json_array(*SELECTED_RUN))


_STANDING = sa.select(run.c.id).where(among(run.c.id, "ids"))


def unused_run_ids(conn: sa.Connection, ids: Sequence[int]) -> Sequence[int]:
    """Those ids that no run has yet.

    A transaction that is repeated because its commit was never confirmed may have used them: given
    to other runs, they would be refused, or, by MySQL, taken for duplicates and left out.
    """
    if not ids:
        return ids
    standing = set(conn.execute(_STANDING, {"ids": ids}).scalars())
    return [each for each in ids if each not in standing]


def insert_fires(conn: sa.Connection, runs: Sequence[Run]) -> None:
    """Write the runs of fires; a fire that is already in the ledger counts as planned."""
    insert_values(
        conn,
        run,
        list(map(_all_values, runs)),
        columns=RUN_COLUMNS,
        ignore_duplicates_of=("trigger_id", "scheduled_at", "shard_index"),
    )


def insert_requested_run(conn: sa.Connection, requested: Run) -> int:
    """Write a run that somebody asked for; returns the id of the run with its request key.

    The same request, sent twice, is one run (guarantee G2); so is the same insert, repeated after
    a commit whose answer never came.
    """
    standing = conn.execute(
        sa.select(run.c.id).where(run.c.id == requested.id)
    ).scalar_one_or_none()
    if standing is None and requested.request_key is not None:
        standing = find_request(conn, requested.job_id, requested.request_key)
    if standing is not None:
        return int(standing)
    insert_values(conn, run, [_all_values(requested)], columns=RUN_COLUMNS)
    return requested.id


def find_request(conn: sa.Connection, job_id: int, request_key: str) -> int | None:
    """The run of the job that was asked for with this key."""
    return conn.execute(
        sa.select(run.c.id).where(run.c.job_id == job_id, run.c.request_key == request_key)
    ).scalar_one_or_none()


def insert_requested_runs(conn: sa.Connection, requested: Sequence[Run]) -> None:
    """Write runs that other runs ask for; one whose request key is taken exists already."""
    insert_values(
        conn,
        run,
        list(map(_all_values, requested)),
        columns=RUN_COLUMNS,
        ignore_duplicates_of=("job_id", "request_key"),
    )


# Statements of the hot path are made once: making one costs more than SQLAlchemy's cache saves.
_QUEUED = sa.and_(run.c.executor_id == executor.c.id, IS_QUEUED)
# Not min(): for several executors MariaDB reads all that is queued for it, and not the first only.
_FIRST_DUE = reading(
    sa.select(run.c.due_at).where(_QUEUED).order_by(run.c.due_at).limit(1), run, "ix_run_due"
)
_DUE_EXECUTORS = sa.select(
    executor.c.id,
    statement_began().label("now"),
    _FIRST_DUE.scalar_subquery().label("first_at"),
    _FIRST_DUE.where(run.c.due_at > statement_began()).scalar_subquery().label("later_at"),
).where(among(executor.c.id, "ids"))


def due_executors(
    conn: sa.Connection, executor_ids: Iterable[int]
) -> list[tuple[int, bool, int | None]]:
    """(executor, has runs due now, ms to the next one after now), where runs are queued."""
    found: list[tuple[int, bool, int | None]] = []
    for row in conn.execute(_DUE_EXECUTORS, {"ids": sorted(executor_ids)}):
        if row.first_at is None:
            continue
        is_due = row.first_at <= row.now
        # SQLite's clock goes on within a statement: the first may be past for `later_at` by then.
        next_at = row.later_at if is_due else row.first_at
        found.append((row.id, is_due, None if next_at is None else next_at - row.now))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRun:
    """A run that may be claimed; the rest of it is read under its lock."""

    id: int
    job_id: int
    job_revision: int


def _claimable(*order: sa.Column[Any], due_at: sa.ColumnElement[Any]) -> sa.Select[Any]:
    return (
        sa.select(run.c.id, run.c.job_id, run.c.job_revision)
        .where(
            run.c.executor_id == sa.bindparam("executor"),
            IS_QUEUED,
            due_at <= sa.bindparam("now"),
        )
        .order_by(*order, run.c.id)  # those of one plan rise by instant
        .limit(sa.bindparam("count"))
    )


_OLDEST = _claimable(run.c.due_at, due_at=run.c.due_at)
_MOST_URGENT = _claimable(run.c.priority, run.c.due_at, due_at=unindexed(run.c.due_at))


def claimable_runs(
    conn: sa.Connection, *, executor_id: int, now: int, limit: int, oldest_first: bool
) -> list[DueRun]:
    """Queued runs that are due, most urgent (or oldest) first; read without a lock."""
    rows = conn.execute(
        _OLDEST if oldest_first else _MOST_URGENT,
        {"executor": executor_id, "now": now, "count": limit},
    )
    return [
        DueRun(id=run_id, job_id=job_id, job_revision=revision) for run_id, job_id, revision in rows
    ]


_LOCK_QUEUED = (
    sa.select(*SELECTED_RUN)
    .where(
        among(run.c.id, "ids"),
        # Under a function: PostgreSQL would read all that was ever queued, until vacuum.
        sa.and_(
            unindexed(run.c.state) == RunState.QUEUED.value, run.c.due_at <= sa.bindparam("now")
        ).is_(True),
    )
    .order_by(run.c.id)
    .with_for_update(skip_locked=True)
)
_LOCK = sa.select(*SELECTED_RUN).where(among(run.c.id, "ids")).order_by(run.c.id).with_for_update()


def lock_queued_runs(conn: sa.Connection, ids: Iterable[int], *, now: int) -> list[Run]:
    """Those of the runs that are still claimable and that no other admin is claiming."""
    return read_runs(conn, _LOCK_QUEUED, {"ids": sorted(ids), "now": now})


def lock_runs(conn: sa.Connection, ids: Iterable[int]) -> dict[int, Run]:
    """The runs that exist, locked in ascending order of id."""
    return {locked.id: locked for locked in read_runs(conn, _LOCK, {"ids": sorted(ids)})}


def move_runs(conn: sa.Connection, moves: Sequence[Move], *, slots_are_taken: bool = False) -> None:
    """Change runs, archive their ended attempts and give and take slots on their nodes.

    The one function that writes a run's state. The runs must be locked by this transaction.

    Args:
        slots_are_taken: a claim has taken the slots already, on the condition that they were free.

    Raises:
        Repeat: a run was not where the move says it was; nothing may be committed.
    """
    groups: defaultdict[tuple[RunState, bool], list[Move]] = defaultdict(list)
    errors: list[RunError] = []
    for move in moves:
        source, target = move.before.state, move.after.state
        if source is not target and target not in MOVES.get(source, ()):
            raise AssertionError(f"run {move.before.id}: {source} to {target} is not a legal move")
        groups[source, source is target].append(move)
    for (source, stays), group in groups.items():
        after = [_after(move) for move in group]
        columns = _changed([move.before for move in group], after)
        # Progress belongs to the state that is left, and becomes NULL with it.
        gone = () if stays or source is not RunState.RUNNING else ("progress", "progress_text")
        rows = [(*values, *(None for _ in gone)) for values in map(_getter("id", *columns), after)]
        failed: tuple[str, ...] = ()
        # A late result may also change how a lost run ended.
        if not stays and (source in FAILURES or any(each.state in FAILURES for each in after)):
            failed = ("error_id",)
            found = [error_of(each) for each in after]
            rows = [(*row, error and error.id) for row, error in zip(rows, found, strict=True)]
            errors += filter(None, found)
        matched = update_values(
            conn,
            run,
            rows,
            match=("id",),
            values=(*columns, *gone, *failed),
            where="t.state = :source",
            params={"source": source.value},
        )
        if matched != len(group):
            raise Repeat(f"{len(group) - matched} runs had left {source}")
    _archive_attempts(conn, moves)
    insert_errors(conn, errors)
    note_ends(conn, moves)
    if not slots_are_taken:
        _change_slots(conn, moves)


def _after(move: Move) -> Run:
    after = move.after
    if after.blocking_key is None:
        return after
    return structs.replace(after, blocking_key=blocking_key_of(after))


@lru_cache(maxsize=1_000)
def _getter(*names: str) -> attrgetter[tuple[Any, ...]]:
    return attrgetter(*names)


def _changed(before: Sequence[Run], after: Sequence[Run]) -> tuple[str, ...]:
    """The columns that differ for any of these runs: a claim changes nine of forty."""
    old, new = (zip(*map(_MOVED_VALUES, runs), strict=True) for runs in (before, after))
    changed = [name for name, a, b in zip(_MOVED, old, new, strict=True) if a != b]
    return tuple(changed) or ("state",)  # written in any case: who moved nothing has locked it


def _change_slots(conn: sa.Connection, moves: Iterable[Move]) -> None:
    """Give and take slots on the moves' nodes."""
    changes: defaultdict[int, int] = defaultdict(int)
    for move in moves:
        for node_id, change in move.slots:
            changes[node_id] += change
    change_slots(conn, changes)


def _archive_attempts(conn: sa.Connection, moves: Sequence[Move]) -> None:
    insert_values(
        conn,
        run_attempt,
        [_ATTEMPT_VALUES(move.archived) for move in moves if move.archived is not None],
        columns=_ATTEMPT_COLUMNS,
        replace_duplicates_of=("run_id", "attempt"),
    )
    for move in moves:
        if move.unarchived:
            conn.execute(
                sa.delete(run_attempt).where(
                    run_attempt.c.run_id == move.after.id,
                    run_attempt.c.attempt == move.after.attempt,
                )
            )


def set_progress(conn: sa.Connection, reports: Sequence[tuple[int, float, str]]) -> None:
    """Keep the latest (run id, fraction, text); the runs must be locked and running."""
    update_rows(
        conn,
        run,
        [
            {"id": run_id, "progress": share, "progress_text": text}
            for run_id, share, text in reports
        ],
        match=("id",),
        values=("progress", "progress_text"),
    )


def keep_late_results(
    conn: sa.Connection, results: Sequence[tuple[int, int, str, str]], *, now: int
) -> None:
    """Note what became of archived attempts after all: (run, attempt, outcome, message)."""
    update_rows(
        conn,
        run_attempt,
        [
            {
                "run_id": run_id,
                "attempt": attempt,
                "late_outcome": outcome,
                "late_message": message or None,
                "late_at": now,
            }
            for run_id, attempt, outcome, message in results
        ],
        match=("run_id", "attempt"),
        values=("late_outcome", "late_message", "late_at"),
        # A result that was recorded in time may come again, when its receipt was lost.
        where="t.state IN ('lost', 'timed_out') AND t.late_at IS NULL",
    )


def attempt_tokens(
    conn: sa.Connection, attempts: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], str | None]:
    """Claim tokens of archived attempts, by (run, attempt)."""
    wanted = set(attempts)
    if not wanted:  # nearly always
        return {}
    rows = conn.execute(
        sa.select(run_attempt.c.run_id, run_attempt.c.attempt, run_attempt.c.claim_token).where(
            run_attempt.c.run_id.in_(sorted({run_id for run_id, _ in wanted}))
        )
    )
    return {
        (row.run_id, row.attempt): row.claim_token
        for row in rows
        if (row.run_id, row.attempt) in wanted
    }


def lost_before(conn: sa.Connection, run_ids: Collection[int]) -> set[int]:
    """Those of these runs that have lost an attempt."""
    rows = conn.execute(_LOST_BEFORE, {"runs": sorted(run_ids)})
    return set(rows.scalars())


_LOST_BEFORE = sa.select(run_attempt.c.run_id).where(
    among(run_attempt.c.run_id, "runs"),
    run_attempt.c.state == RunState.LOST.value,
)


def blocking_key_of(after: Run) -> int | None:
    """The column's value for a run of a job that is not parallel (store.tables.run)."""
    return None if after.state in FINAL else after.job_id * 2 + (after.state in LIVE)
