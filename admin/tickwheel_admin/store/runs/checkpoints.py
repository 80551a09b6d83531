"""What attempts left for the next try of their run: the newest one of each run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.database.batch import insert_rows
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import run_checkpoint

LAST = 2**31 - 1  # `seq` of one that came with a result: none of its attempt is newer


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """What an attempt of a run left."""

    run_id: int
    attempt: int
    seq: int  # orders those of one attempt
    data: str  # JSON
    saved_at: int | None = None  # None: now

    @property
    def age(self) -> tuple[int, int]:
        """Of two of a run, the one with the higher age is newer."""
        return self.attempt, self.seq


_ALL_COLUMNS = ("run_id", "attempt", "seq", "data", "saved_at")
_READ = sa.select(run_checkpoint.c.run_id, run_checkpoint.c.data).where(
    among(run_checkpoint.c.run_id, "runs")
)
_AGES = sa.select(run_checkpoint.c.run_id, run_checkpoint.c.attempt, run_checkpoint.c.seq).where(
    among(run_checkpoint.c.run_id, "runs")
)


def read_checkpoints(conn: sa.Connection, run_ids: Collection[int]) -> dict[int, str]:
    """What these runs are to begin from, by run, where anything was left."""
    rows = conn.execute(_READ, {"runs": sorted(run_ids)})
    return {row.run_id: row.data for row in rows}


def save_checkpoints(conn: sa.Connection, saved: Iterable[StoredCheckpoint], *, now: int) -> None:
    """Store those that are newer than the stored ones; at most one per run.

    The runs are locked, and each checkpoint is of its run's current attempt: both the caller's
    business.
    """
    by_run = {each.run_id: each for each in saved}
    if not by_run:
        return
    there = {
        row.run_id: (row.attempt, row.seq) for row in conn.execute(_AGES, {"runs": sorted(by_run)})
    }
    insert_rows(
        conn,
        run_checkpoint,
        [
            {
                "run_id": each.run_id,
                "attempt": each.attempt,
                "seq": each.seq,
                "data": each.data,
                "saved_at": now,
            }
            for _, each in sorted(by_run.items())
            if each.age > there.get(each.run_id, (0, 0))
        ],
        columns=_ALL_COLUMNS,
        replace_duplicates_of=("run_id",),
    )


def get_checkpoint(conn: sa.Connection, run_id: int) -> StoredCheckpoint | None:
    """What the run's next try begins from."""
    row = conn.execute(
        sa.select(*(run_checkpoint.c[name] for name in _ALL_COLUMNS)).where(
            run_checkpoint.c.run_id == run_id
        )
    ).one_or_none()
    return None if row is None else StoredCheckpoint(**row._mapping)
