"""What a backup says of itself: version, schema, and what each table must look like."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.store.backup.contents import columns_of

FORMAT = 1
"""Rises when a program of an earlier version could not read the file any more."""
MEDIUMTEXT_BYTES = 16_777_215
_BIGGEST = 2**63 - 1
_INTEGERS: tuple[tuple[type[sa.types.TypeEngine[Any]], int], ...] = (
    (sa.BigInteger, _BIGGEST),
    (sa.SmallInteger, 2**15 - 1),
)


class TablePart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file."""

    columns: list[str]
    rows: int
    sha256: str  # of its lines, in hex


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last part of the file: it is complete only if this is there."""

    format: int
    version: str  # of the program that wrote it
    revision: str  # of the schema
    database: str  # kind: sqlite, mysql, mariadb, postgresql
    made_at: int  # UTC epoch ms by the clock of the database
    with_runs: bool
    tables: dict[str, TablePart]


@lru_cache(maxsize=100)
def row_decoder(table: sa.Table) -> msgspec.json.Decoder[Any]:
    """Reads a line, and raises msgspec.ValidationError unless its values fit into the table."""
    # The type is made from the table, which no annotation could say.
    return msgspec.json.Decoder(tuple[tuple(map(_type_of, columns_of(table)))])  # type: ignore[misc]


def _type_of(column: sa.Column[Any]) -> Any:
    kind = _plain_type_of(column.type)
    return kind | None if column.nullable else kind


def _plain_type_of(kind: sa.types.TypeEngine[Any]) -> Any:
    if isinstance(kind, sa.Boolean):
        return bool
    if isinstance(kind, sa.Integer):
        most = next((most for known, most in _INTEGERS if isinstance(kind, known)), 2**31 - 1)
        return Annotated[int, msgspec.Meta(ge=-most - 1, le=most)]
    if isinstance(kind, sa.Float):
        return float
    if not isinstance(kind, sa.String):
        raise TypeError(f"backups do not know the type {kind!r}")
    if kind.length is None:
        return str
    return Annotated[str, msgspec.Meta(max_length=kind.length)]
