"""The states that jobs keep from run to run: only the attempt claimed last may write them.

Rows of `job_state` are locked after all others of a transaction, by ascending job id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.database.batch import insert_rows, update_rows
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import job_state

EMPTY = "{}"  # what a job's first run is given


@dataclass(frozen=True, slots=True, kw_only=True)
class StateHolder:
    """A claimed attempt of a job that keeps a state."""

    job_id: int
    run_id: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """A job's state, as people see it."""

    state: str = EMPTY  # JSON object
    run_id: int | None = None  # the run whose end wrote it; None: a person did, or nobody yet
    updated_at: int | None = None  # None: it is unwritten


_READ = sa.select(job_state.c.job_id, job_state.c.state).where(among(job_state.c.job_id, "jobs"))
_WRITERS = sa.select(job_state.c.job_id, job_state.c.run_id).where(
    among(job_state.c.job_id, "jobs")
)


def assign_states(conn: sa.Connection, holders: Iterable[StateHolder]) -> dict[int, str]:
    """Make these attempts the holders of their jobs' states; returns the states, by job.

    The caller has locked the jobs. From now on no other attempt can write the states, however
    late its result comes.
    """
    rows: list[dict[str, Any]] = [
        {
            "job_id": holder.job_id,
            "state": EMPTY,
            "lent_run_id": holder.run_id,
            "lent_attempt": holder.attempt,
        }
        for holder in sorted(holders, key=lambda holder: holder.job_id)
    ]
    if not rows:
        return {}
    lent = ("lent_run_id", "lent_attempt")
    if update_rows(conn, job_state, rows, match=("job_id",), values=lent) < len(rows):
        insert_rows(
            conn,
            job_state,
            rows,
            columns=("job_id", "state", *lent),
            ignore_duplicates_of=("job_id",),
        )
    return read_states(conn, [row["job_id"] for row in rows])


def read_states(conn: sa.Connection, job_ids: Collection[int]) -> dict[int, str]:
    """The stored states, by job."""
    rows = conn.execute(_READ, {"jobs": sorted(job_ids)})
    return {row.job_id: row.state for row in rows}


def write_states(
    conn: sa.Connection, written: Sequence[tuple[StateHolder, str]], *, now: int
) -> Collection[int]:
    """Store the states that attempts leave, if they still hold them.

    Returns the runs whose state is not stored: another attempt holds it, or a person wrote it.
    """
    if not written:
        return ()
    matched = update_rows(
        conn,
        job_state,
        [
            {
                "job_id": holder.job_id,
                "lent_run_id": holder.run_id,
                "lent_attempt": holder.attempt,
                "state": state,
                "run_id": holder.run_id,
                "updated_at": now,
            }
            for holder, state in sorted(written, key=lambda each: each[0].job_id)
        ],
        match=("job_id", "lent_run_id", "lent_attempt"),
        values=("state", "run_id", "updated_at"),
    )
    if matched == len(written):
        return ()
    jobs = {holder.job_id for holder, _ in written}
    writers = {row.job_id: row.run_id for row in conn.execute(_WRITERS, {"jobs": sorted(jobs)})}
    return [holder.run_id for holder, _ in written if writers.get(holder.job_id) != holder.run_id]


# --- by people -----------------------------------------------------------------------------------


def get_state(conn: sa.Connection, job_id: int, *, lock: bool = False) -> StoredState:
    """A job's state; empty when there is none.

    Args:
        lock: hold it until the end of the transaction, if its row exists.
    """
    query = sa.select(job_state.c.state, job_state.c.run_id, job_state.c.updated_at).where(
        job_state.c.job_id == job_id
    )
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        return StoredState()
    return StoredState(state=row.state, run_id=row.run_id, updated_at=row.updated_at)


def set_state(conn: sa.Connection, job_id: int, state: str, *, now: int) -> None:
    """Write a state for a person; no live run can overwrite it."""
    columns = ("job_id", "state", "updated_at", "run_id", "lent_run_id", "lent_attempt")
    insert_rows(
        conn,
        job_state,
        [{"job_id": job_id, "state": state, "updated_at": now}],
        columns=columns,
        replace_duplicates_of=("job_id",),
    )


def forget_states(conn: sa.Connection, job_ids: Collection[int]) -> None:
    """Remove the states; live runs leave none."""
    conn.execute(sa.delete(job_state).where(job_state.c.job_id.in_(sorted(job_ids))))
