"""New runs: of fires, and those that a person, a program or another run asks for."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import (
    Run,
)
from tickwheel_admin.store.database.batch import insert_values
from tickwheel_admin.store.database.event_interest import wants_events
from tickwheel_admin.store.database.expressions import among
from tickwheel_admin.store.database.tables import run
from tickwheel_admin.store.runs.events.writer import write_new
from tickwheel_admin.store.runs.rows import RUN_COLUMNS

_INSERTED = (*RUN_COLUMNS, "is_part")
_all_values = attrgetter(*_INSERTED)

_STANDING = sa.select(run.c.id).where(among(run.c.id, "ids"))
_STANDING_BETWEEN = sa.select(run.c.id).where(
    run.c.id.between(sa.bindparam("first"), sa.bindparam("last"))
)


def unused_run_ids(conn: sa.Connection, ids: Sequence[int]) -> Sequence[int]:
    """Those ids that no run has yet.

    A transaction that is repeated because its commit was never confirmed may have used them: given
    to other runs, they would be refused, or, by MySQL, taken for duplicates and left out.
    """
    if not ids:
        return ids
    standing = _standing(conn, ids)
    return [each for each in ids if each not in standing]


def _standing(conn: sa.Connection, ids: Sequence[int]) -> set[int]:
    """Those that a run has."""
    first, last = min(ids), max(ids)
    if last - first < len(
        ids
    ):  # one block, as mostly: a list of thousands takes long to take apart
        found = conn.execute(_STANDING_BETWEEN, {"first": first, "last": last})
    else:
        found = conn.execute(_STANDING, {"ids": ids})
    return set(found.scalars())


def insert_fires(conn: sa.Connection, runs: Sequence[Run]) -> None:
    """Write the runs of fires; a fire that is already in the ledger counts as planned."""
    _insert_new(conn, runs, key=("trigger_id", "scheduled_at", "shard_index"))


def insert_requested_run(conn: sa.Connection, requested: Run) -> int:
    """Write a requested run; returns the id of the run with its request key.

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
    insert_values(conn, run, [_all_values(requested)], columns=_INSERTED)
    write_new(conn, [requested])
    return requested.id


def find_request(conn: sa.Connection, job_id: int, request_key: str) -> int | None:
    """The run of the job that was asked for with this key."""
    return conn.execute(
        sa.select(run.c.id).where(run.c.job_id == job_id, run.c.request_key == request_key)
    ).scalar_one_or_none()


def insert_requested_runs(conn: sa.Connection, requested: Sequence[Run]) -> None:
    """Write runs that other runs ask for; one whose request key is taken exists already."""
    _insert_new(conn, requested, key=("job_id", "request_key"))


def _insert_new(conn: sa.Connection, runs: Sequence[Run], *, key: Sequence[str]) -> None:
    """Insert runs, but for those whose key is taken, with the events of those that are new."""
    if not runs:
        return
    noted = wants_events(conn)
    ids = [each.id for each in runs]
    # No database says which rows it left out: those there are after it, without those before it.
    before = _standing(conn, ids) if noted else set()
    insert_values(
        conn,
        run,
        list(map(_all_values, runs)),
        columns=_INSERTED,
        ignore_duplicates_of=key,
    )
    if noted:
        new = _standing(conn, ids) - before
        write_new(conn, [each for each in runs if each.id in new])
