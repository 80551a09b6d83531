"""Moves an installation to another database: no fire is lost, and none happens twice.

The mark in the old database makes its admins leave. When all have left, nothing changes there any
more; then the rows are copied, in one transaction of the new database. Its admins may start only
after that. Ended runs and their logs, most of the rows, are copied before the mark is set; what
changed of them since is copied again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.store.backup.contents import columns_of, tables_of_move
from tickwheel_admin.store.backup.engines import one_transaction, snapshot
from tickwheel_admin.store.backup.restoring import (
    TargetRefused,
    delete_everything,
    refuse_filled,
    refuse_live_admins,
)
from tickwheel_admin.store.backup.rows import (
    Rows,
    beyond,
    count_rows,
    key_of,
    read_batches,
    read_range,
    write_rows,
)
from tickwheel_admin.store.backup.writer import Told
from tickwheel_admin.store.database import tables as t
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.system.moved import MARK, DatabaseMove, mark_move, read_move

# Many rows that seldom change, found by numbers: an order that all databases agree on.
COPIED_BEFORE = frozenset({"run", "run_attempt", "run_log", "workflow_item", "workflow_step"})
LEAVE_SECONDS = 120.0  # an admin stops within 15 s; one that was killed is gone after 15 s
_POLL_SECONDS = 0.2


class MoveFailed(Exception):
    """The move did not happen, and the old database is as before; the message says why."""


def admins_left(conn: sa.Connection) -> list[str]:
    """Names of the admins that still work on the database."""
    live = sa.select(t.admin.c.name).where(t.admin.c.lease_expires_at > now_ms(conn))
    return sorted(conn.execute(live).scalars())


def begin_move(conn: sa.Connection, *, to: str, token: str) -> DatabaseMove:
    """Mark the database; a move to the same one that was cut off goes on.

    Raises:
        MoveFailed: it was moved, or is being moved elsewhere.
    """
    found = read_move(conn)
    if found is not None and (found.done or found.to != to):
        raise MoveFailed(found.sentence)
    move = found or DatabaseMove(to=to, token=token, at=now_ms(conn))
    mark_move(conn, move)
    return move


def fence(conn: sa.Connection) -> None:
    """Let an admin that wakes from a long freeze find nothing to plan and nobody to send runs to.

    Raises:
        MoveFailed: an admin has come back.
    """
    if names := admins_left(conn):
        raise MoveFailed(f"admins still work on the old database: {', '.join(names)}")
    for table in (t.bucket, t.node_session, t.admin):
        conn.execute(sa.delete(table))  # the next admin that enters makes the buckets again


def wait_for_admins(
    left: Callable[[], list[str]], *, seconds: float = LEAVE_SECONDS, sleep: Callable[[float], None]
) -> None:
    """Wait until no admin works on the old database; MoveFailed when one does not leave."""
    until = time.monotonic() + seconds
    while names := left():
        if time.monotonic() > until:
            raise MoveFailed(f"these admins did not stop within {seconds:.0f} s: {names}")
        sleep(_POLL_SECONDS)


def copy_everything(
    source_url: str,
    target_url: str,
    *,
    stop_admins: Callable[[], DatabaseMove],
    replace: bool,
    told: Told,
) -> tuple[DatabaseMove, int]:
    """Copy all rows; returns the move and how many rows there are.

    Args:
        stop_admins: marks the old database and returns when nobody writes there any more.
        replace: delete what is in the new database first.

    Raises:
        TargetRefused: the new database is not empty, or takes a row not as it is.
        MoveFailed: from `stop_admins`. Nothing was written to the new database.
    """
    try:
        with one_transaction(target_url) as target:
            refuse_live_admins(target)
            if replace:
                delete_everything(target)
            else:
                refuse_filled(target)
            with snapshot(source_url) as source:
                for table in tables_of_move():
                    if table.name in COPIED_BEFORE:
                        _copy(source, target, table, told)
            move = stop_admins()
            with snapshot(source_url) as source:
                rows = sum(_finish(source, target, table, told) for table in tables_of_move())
            # By this a repeated command knows that everything has arrived here.
            target.execute(sa.insert(t.setting).values(name=ARRIVED, value=move.token))
            refuse_live_admins(target)
            return move, rows
    except sa.exc.IntegrityError as error:
        raise TargetRefused(
            f"the new database takes two rows for one: {str(error.orig).strip()}"
        ) from error


ARRIVED = "moved_here"  # name of the setting that keeps the token of the move


def has_arrived(conn: sa.Connection, move: DatabaseMove) -> bool:
    """Whether the new database has everything of this move."""
    value = sa.select(t.setting.c.value).where(t.setting.c.name == ARRIVED)
    return conn.execute(value).scalar_one_or_none() == move.token


def _copy(source: sa.Connection, target: sa.Connection, table: sa.Table, told: Told) -> int:
    total, rows = count_rows(source, table), 0
    for batch in read_batches(source, table):
        kept = _copied(table, batch)
        write_rows(target, table, kept)
        rows += len(kept)
        told(table.name, rows, total)
    return rows


def _finish(source: sa.Connection, target: sa.Connection, table: sa.Table, told: Told) -> int:
    if table.name in COPIED_BEFORE:
        rows = copy_changes(source, target, table, told)
    else:
        rows = _copy(source, target, table, told)
    found = count_rows(target, table)
    if found != rows:
        raise TargetRefused(f"{table.name} has {found:,} rows, and {rows:,} were copied")
    return rows


def copy_changes(source: sa.Connection, target: sa.Connection, table: sa.Table, told: Told) -> int:
    """Make a table of the new database equal to that of the old one; how many rows it has."""
    key = key_of(table)
    places = [columns_of(table).index(column) for column in key]
    total, rows = count_rows(source, table), 0
    after: list[Any] | None = None
    for batch in read_batches(source, table):
        last = [batch[-1][place] for place in places]
        present = {
            _key(row, places): row for row in read_range(target, table, after=after, to=last)
        }
        wanted = {_key(row, places): row for row in batch}
        changed = [each for each, row in wanted.items() if not _same(present.get(each), row)]
        _delete(target, key, [*(present.keys() - wanted.keys()), *(present.keys() & set(changed))])
        write_rows(target, table, [wanted[each] for each in changed])
        rows += len(batch)
        after = last
        told(table.name, rows, total)
    beyond_last = sa.true() if after is None else beyond(key, after)
    target.execute(sa.delete(table).where(beyond_last))
    return rows


def _key(row: Sequence[Any], places: Sequence[int]) -> tuple[Any, ...]:
    return tuple(row[place] for place in places)


def _same(one: Sequence[Any] | None, other: Sequence[Any]) -> bool:
    return one is not None and all(map(_equal, one, other))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-5)  # MariaDB's FLOAT has seven digits
    return bool(one == other)


def _delete(
    target: sa.Connection, key: Sequence[sa.Column[Any]], keys: Sequence[tuple[Any, ...]]
) -> None:
    for each in keys:
        same = sa.and_(*(column == value for column, value in zip(key, each, strict=True)))
        target.execute(sa.delete(key[0].table).where(same))


def _copied(table: sa.Table, rows: Rows) -> Rows:
    if table is t.setting:
        return [row for row in rows if row[0] not in (MARK, ARRIVED)]
    return rows
