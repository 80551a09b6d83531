"""Writes a backup: a zip file with a part of JSON lines for each table, and a manifest."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.backup.contents import columns_of, tables_of_backup
from tickwheel_admin.store.backup.manifest import FORMAT, Manifest, TablePart
from tickwheel_admin.store.backup.rows import count_rows, read_batches
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.migrate import head
from tickwheel_admin.store.database.tables import setting
from tickwheel_admin.store.system.moved import MARK

Told = Callable[[str, int, int], None]  # table, rows so far, rows in all

MANIFEST = "manifest.json"
_LEVEL = 6  # of the compression: a third of the time of the best one, and nearly as small


def part_of(table: str) -> str:
    """The name of a table's part in the file."""
    return f"tables/{table}.ndjson"


def write_backup(
    conn: sa.Connection, file: Path, *, version: str, with_runs: bool, told: Told
) -> Manifest:
    """Write what a snapshot shows. The file has its name only when it is complete and on the disk.

    Args:
        version: of this program.
        with_runs: also runs, their logs and other history.

    Raises:
        OSError: the file cannot be written; nothing is left behind.
    """
    made_at = now_ms(conn)  # the first statement: on servers the snapshot begins with it
    draft = file.with_name(f"{file.name}.part")
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # it holds hashes
    try:
        with os.fdopen(opened, "wb") as writer:
            with zipfile.ZipFile(
                writer, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL, allowZip64=True
            ) as archive:
                parts = {
                    str(table.name): _write_table(conn, archive, table, told)
                    for table in tables_of_backup(with_runs=with_runs)
                }
                manifest = Manifest(
                    format=FORMAT,
                    version=version,
                    revision=head(),
                    database=kind_of(conn),
                    made_at=made_at,
                    with_runs=with_runs,
                    tables=parts,
                )
                archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
            writer.flush()
            os.fsync(writer.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return manifest


def kind_of(conn: sa.Connection) -> str:
    """sqlite, mysql, mariadb or postgresql."""
    return "mariadb" if getattr(conn.dialect, "is_mariadb", False) else conn.dialect.name


def _write_table(
    conn: sa.Connection, archive: zipfile.ZipFile, table: sa.Table, told: Told
) -> TablePart:
    total, rows, digest = count_rows(conn, table), 0, hashlib.sha256()
    encode = msgspec.json.Encoder().encode_lines
    with archive.open(part_of(table.name), "w", force_zip64=True) as part:
        for batch in read_batches(conn, table):
            if table is setting:  # where this database went is no business of its copies
                batch = [row for row in batch if row[0] != MARK]
            lines = encode(batch)
            part.write(lines)
            digest.update(lines)
            rows += len(batch)
            told(table.name, rows, total)
    return TablePart(
        columns=[str(column.name) for column in columns_of(table)],
        rows=rows,
        sha256=digest.hexdigest(),
    )
