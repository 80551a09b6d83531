"""Runs are locked and moved here; `move_runs` is the only function that writes their state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from msgspec import structs

from tickwheel_admin.domain.runs.error import RunError, error_of
from tickwheel_admin.domain.runs.run import (
    FAILURES,
    FINAL,
    LIVE,
    MOVES,
    Move,
    Run,
    RunState,
)
from tickwheel_admin.store.database.batch import update_rows, update_values
from tickwheel_admin.store.database.database import Repeat
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.facts import facts_of
from tickwheel_admin.store.database.index_hints import unindexed
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.executors.node_slots import change_slots, take_slots
from tickwheel_admin.store.pools.slots import give_back
from tickwheel_admin.store.runs.attempts import archive_attempts
from tickwheel_admin.store.runs.errors import insert_errors
from tickwheel_admin.store.runs.events.writer import write_moved
from tickwheel_admin.store.runs.retries import note_ends
from tickwheel_admin.store.runs.rows import SELECTED_RUN, read_runs
from tickwheel_admin.store.runs.spans import note_spans

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
    "trace",  # begun by its first claim
)

_MOVED_VALUES = attrgetter(*_MOVED)

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


def move_runs(conn: sa.Connection, moves: Sequence[Move]) -> None:
    """Change runs, and archive their ended attempts. The slots of pools are given back; a claim
    takes them, and `move_slots` those of nodes.

    Runs change their state here, and in `claim_runs`. They must be locked by this transaction.

    Raises:
        Repeat: a run was not where the move says it was; nothing may be committed.
    """
    errors = _write_rows(conn, moves)
    _write_beside(conn, moves, errors)


def claim_runs(conn: sa.Connection, claims: Sequence[Move], *, now: int) -> list[Move]:
    """Give queued runs to nodes, as far as those have free slots; returns what was claimed.

    Nodes are locked last, as by `move_slots`: whatever ends on them waits for their rows. So the
    rows of runs are written before the slots are taken, and those of runs that get no slot, because
    another admin was faster, are put back as they were.

    Raises:
        Repeat: as `move_runs`.
    """
    if not claims:
        return []
    errors = _write_rows(conn, claims)
    free = Counter(take_slots(conn, Counter(move.after.node_id or 0 for move in claims), now=now))
    claimed, put_back = [], []
    for move in claims:
        node_id = move.after.node_id or 0
        if free[node_id] > 0:
            free[node_id] -= 1
            claimed.append(move)
        else:
            put_back.append(Move(before=_stored(move.after), after=move.before))
    _write_rows(conn, put_back)
    _write_beside(conn, claimed, errors)
    return claimed


def _write_rows(conn: sa.Connection, moves: Sequence[Move]) -> list[RunError]:
    """The rows of the runs alone; returns the errors of those that have failed.

    The one function that writes a run's state.
    """
    groups: defaultdict[tuple[RunState, bool], list[Move]] = defaultdict(list)
    errors: list[RunError] = []
    for move in moves:
        source, target = move.before.state, move.after.state
        if source is not target and target not in MOVES.get(source, ()):
            raise AssertionError(f"run {move.before.id}: {source} to {target} is not a legal move")
        groups[source, source is target].append(move)
    for (source, stays), group in groups.items():
        after = [_stored(move.after) for move in group]
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
    return errors


def _write_beside(conn: sa.Connection, moves: Sequence[Move], errors: Sequence[RunError]) -> None:
    """What is written of moves beside the rows of the runs."""
    give_back(conn, moves)
    archive_attempts(conn, moves)
    insert_errors(conn, errors)
    note_ends(conn, moves)
    note_spans(conn, moves)
    write_moved(conn, moves)
    if moves:
        facts_of(conn).moves.append(moves)


def _stored(moved: Run) -> Run:
    """As its row is written: moves leave it to us what the blocking key becomes."""
    if moved.blocking_key is None:
        return moved
    return structs.replace(moved, blocking_key=blocking_key_of(moved))


@lru_cache(maxsize=1_000)
def _getter(*names: str) -> attrgetter[tuple[Any, ...]]:
    return attrgetter(*names)


def _changed(before: Sequence[Run], after: Sequence[Run]) -> tuple[str, ...]:
    """The columns that differ for any of these runs: a claim changes nine of forty."""
    old, new = (zip(*map(_MOVED_VALUES, runs), strict=True) for runs in (before, after))
    changed = [name for name, a, b in zip(_MOVED, old, new, strict=True) if a != b]
    return tuple(changed) or ("state",)  # written in any case: who moved nothing has locked it


def move_slots(conn: sa.Connection, moves: Iterable[Move]) -> None:
    """Give and take the slots of nodes for moves that are written.

    Nodes are locked last, and so for the shortest time: every claim of their executor waits for
    these rows.
    """
    changes: defaultdict[int, int] = defaultdict(int)
    for move in moves:
        for node_id, change in move.slots:
            changes[node_id] += change
    change_slots(conn, changes)


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


def blocking_key_of(after: Run) -> int | None:
    """The column's value for a run of a job that is not parallel (store.tables.run)."""
    return None if after.state in FINAL else after.job_id * 2 + (after.state in LIVE)
