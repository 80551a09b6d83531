"""Reads a backup, and refuses one that is damaged before anything is written.

The file is read twice: once to compare it with its manifest, and once to restore it.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.backup.contents import columns_of, rows_at_once, tables_of_backup
from tickwheel_admin.store.backup.manifest import (
    FORMAT,
    MEDIUMTEXT_BYTES,
    Manifest,
    TablePart,
    row_decoder,
)
from tickwheel_admin.store.backup.rows import Rows
from tickwheel_admin.store.backup.writer import MANIFEST, Told, part_of
from tickwheel_admin.store.database.migrate import head

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
MAX_MANIFEST_BYTES = 1_000_000
MAX_LINE_BYTES = 256 * 1024 * 1024  # of a row: some texts of 16 MiB, with every byte escaped


class BackupRefused(Exception):
    """The file cannot be restored by this program; the message says why and what to do."""


class BackupFile:
    """An open backup."""

    def __init__(self, file: Path) -> None:
        """Read the manifest.

        Raises:
            BackupRefused: it is no backup, is cut off, or is of a version that cannot be restored.
            OSError: it cannot be read.
        """
        self._file = file
        try:
            self._archive = zipfile.ZipFile(file)
        except _BROKEN as error:
            raise self._damaged("it is no backup, or was cut off") from error
        try:
            self.manifest = self._read_manifest()
            self._check_versions()
            self.tables = self._check_tables()
        except BaseException:
            self._archive.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._archive.close()

    def verify(self, told: Told) -> None:
        """Read everything and compare it with the manifest and the schema.

        Raises:
            BackupRefused: something differs.
        """
        for table in self.tables:
            part, rows, digest = self.manifest.tables[table.name], 0, hashlib.sha256()
            for lines in self._lines(table):
                digest.update(b"".join(lines))
                rows += len(self._decoded(table, lines, first=rows + 1))
                told(table.name, rows, part.rows)
            if (rows, digest.hexdigest()) != (part.rows, part.sha256):
                raise self._damaged(f"the table {table.name} is not as it was written")

    def batches(self, table: sa.Table) -> Iterator[Rows]:
        """The rows of a table."""
        first = 1
        for lines in self._lines(table):
            yield self._decoded(table, lines, first=first)
            first += len(lines)

    def part(self, table: sa.Table) -> TablePart:
        """What the manifest says of a table."""
        return self.manifest.tables[table.name]

    def _read_manifest(self) -> Manifest:
        try:
            if self._archive.getinfo(MANIFEST).file_size > MAX_MANIFEST_BYTES:
                raise self._damaged("its manifest is too large")
            text = self._archive.read(MANIFEST)
        except KeyError:
            raise self._damaged("it has no manifest") from None
        except _BROKEN as error:
            raise self._damaged("its manifest cannot be read") from error
        try:
            written = msgspec.json.decode(text, type=dict[str, Any]).get("format")
            if isinstance(written, int) and written > FORMAT:
                raise BackupRefused(
                    f"{self._file} has the format {written}, this program reads up to {FORMAT}:"
                    " upgrade the program"
                )
            return msgspec.json.decode(text, type=Manifest)
        except msgspec.DecodeError as error:
            raise self._damaged(f"its manifest is not valid: {error}") from None

    def _check_versions(self) -> None:
        made = self.manifest
        if made.format < 1:
            raise self._damaged(f"there is no format {made.format}")
        if made.revision != head():
            raise BackupRefused(
                f"{self._file} was made by Tickwheel {made.version} with schema revision"
                f" {made.revision}, and this program has {head()}: restore it with that version of"
                " the program, then upgrade"
            )

    def _check_tables(self) -> tuple[sa.Table, ...]:
        tables = tables_of_backup(with_runs=self.manifest.with_runs)
        if {table.name for table in tables} != self.manifest.tables.keys():
            raise self._damaged("its manifest does not name the tables of a backup")
        for table in tables:
            if [column.name for column in columns_of(table)] != self.part(table).columns:
                raise self._damaged(f"the table {table.name} has other columns")
        return tables

    def _lines(self, table: sa.Table) -> Iterator[list[bytes]]:
        at_once = rows_at_once(table)
        try:
            with self._archive.open(part_of(table.name)) as part:
                while True:
                    lines: list[bytes] = []
                    while len(lines) < at_once and (line := part.readline(MAX_LINE_BYTES)):
                        lines.append(line)
                    if lines:
                        yield lines
                    if len(lines) < at_once:
                        return
        except KeyError:
            raise self._damaged(f"the table {table.name} is missing") from None
        except _BROKEN as error:
            raise self._damaged(f"the table {table.name} cannot be read") from error

    def _decoded(self, table: sa.Table, lines: list[bytes], *, first: int) -> Rows:
        decoder = row_decoder(table)
        rows = []
        for number, line in enumerate(lines, first):
            try:
                row = decoder.decode(line)
            except msgspec.DecodeError as error:
                raise self._damaged(f"{table.name}, line {number}: {error}") from None
            if b"\\u0000" in line and any(isinstance(v, str) and "\0" in v for v in row):
                raise self._damaged(
                    f"{table.name}, line {number}: a text has a NUL character, which no database"
                    " but SQLite can store"
                )
            if len(line) > MEDIUMTEXT_BYTES and any(map(_is_too_long, row)):
                raise self._damaged(f"{table.name}, line {number}: a text is longer than 16 MiB")
            rows.append(row)
        return rows

    def _damaged(self, why: str) -> BackupRefused:
        return BackupRefused(f"{self._file} cannot be restored: {why}")


def _is_too_long(value: Any) -> bool:
    return isinstance(value, str) and len(value.encode()) > MEDIUMTEXT_BYTES
