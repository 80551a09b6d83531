"""Writes a backup into an empty database: all of it in one transaction, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.store.backup.adjustments import adjusted
from tickwheel_admin.store.backup.contents import MOMENTARY, tables_of_backup
from tickwheel_admin.store.backup.engines import one_transaction
from tickwheel_admin.store.backup.reader import BackupFile
from tickwheel_admin.store.backup.rows import count_rows, is_empty, write_rows
from tickwheel_admin.store.backup.writer import Told
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.tables import admin, setting
from tickwheel_admin.store.self_audit.periods import keep_retained
from tickwheel_admin.store.triggers.pauses import ALL_PAUSED

EVERY_TABLE: Sequence[sa.Table] = (*tables_of_backup(with_runs=True), *MOMENTARY)
_SHOWN = 5  # tables that a refusal names


class TargetRefused(Exception):
    """The database cannot take the rows; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was written."""

    rows: int
    at: int  # by the clock of the database


def restore(url: str, backup: BackupFile, *, replace: bool, paused: bool, told: Told) -> Restored:
    """Write a verified backup into the database at `url`, whose schema must be this program's.

    What was going on when the backup was made does not go on: see `adjustments`.

    Args:
        replace: delete what is there first.
        paused: no fire after the backup runs until somebody resumes.

    Raises:
        TargetRefused: the database has rows, an admin works on it, or it does not take a row.
        BackupRefused: the file changed since it was verified.
    """
    try:
        with one_transaction(url) as conn:
            refuse_live_admins(conn)
            if replace:
                delete_everything(conn)
            else:
                refuse_filled(conn)
            now = now_ms(conn)
            paused_at = backup.manifest.made_at if paused else None
            rows = sum(
                _restore_table(conn, backup, table, now=now, paused_at=paused_at, told=told)
                for table in backup.tables
            )
            if paused_at is not None:
                conn.execute(sa.insert(setting).values(name=ALL_PAUSED, value=str(paused_at)))
            if not backup.manifest.with_runs:
                keep_retained(conn, kept_from=now)  # else audits would miss every fire before
            refuse_live_admins(conn)  # one may have come meanwhile
            return Restored(rows=rows, at=now)
    except sa.exc.IntegrityError as error:
        raise TargetRefused(
            "the database has a row already, or takes two names for one that the old one told"
            f" apart: {str(error.orig).strip()}"
        ) from error


def refuse_live_admins(conn: sa.Connection) -> None:
    """Raise TargetRefused while an admin works on the database."""
    live = sa.select(admin.c.name).where(admin.c.lease_expires_at > now_ms(conn))
    if names := sorted(conn.execute(live).scalars()):
        raise TargetRefused(
            f"admins work on this database: {', '.join(names)}. Stop them first; one that was"
            " killed is taken for gone after 15 s"
        )


def refuse_filled(conn: sa.Connection) -> None:
    """Raise TargetRefused unless all tables are empty."""
    filled = [table.name for table in EVERY_TABLE if not is_empty(conn, table)]
    if filled:
        more = f" and {len(filled) - _SHOWN} more" if len(filled) > _SHOWN else ""
        raise TargetRefused(
            f"this database is not empty: it has rows in {', '.join(filled[:_SHOWN])}{more}. Give"
            " an empty one, or add --replace to delete everything that is in it"
        )


def delete_everything(conn: sa.Connection) -> None:
    """Empty all tables, so that it can be undone."""
    for table in EVERY_TABLE:
        conn.execute(sa.delete(table))


def _restore_table(
    conn: sa.Connection,
    backup: BackupFile,
    table: sa.Table,
    *,
    now: int,
    paused_at: int | None,
    told: Told,
) -> int:
    written = read = 0
    for batch in backup.batches(table):
        rows = adjusted(table, batch, now=now, paused_at=paused_at)
        write_rows(conn, table, rows)
        read += len(batch)
        written += len(rows)
        told(table.name, read, backup.part(table).rows)
    found = count_rows(conn, table)
    if found != written:
        raise TargetRefused(f"{table.name} has {found:,} rows, and {written:,} were written")
    return written
