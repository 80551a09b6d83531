"""The table of receipts in the database of a service: its DDL, and the deletion of old rows."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Literal

from .databases import VENDORS, database_of

Vendor = Literal["mysql", "postgresql", "sqlite"]

_KEEP = timedelta(days=90)
_AT_ONCE = 10_000  # rows of one DELETE, so that it holds no locks for long

# What differs: names are compared byte by byte everywhere; on MySQL and MariaDB the engine must be
# transactional, and TEXT ends at 64 KiB.
_TYPES = {
    "mysql": {
        "name": "VARCHAR({}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "text": "MEDIUMTEXT CHARACTER SET ascii",
        "end": " ENGINE=InnoDB",
    },
    "postgresql": {"name": 'VARCHAR({}) COLLATE "C"', "text": "TEXT", "end": ""},
    "sqlite": {"name": "VARCHAR({})", "text": "TEXT", "end": ""},
}


def receipt_table_ddl(vendor: Vendor) -> str:
    """The statements that create the table and its index, each ended by a semicolon.

    Args:
        vendor: `mysql` stands for MariaDB, too.

    Raises:
        ValueError: another name.
    """
    return "".join(f"{statement};\n" for statement in _statements(vendor))


def _statements(vendor: str) -> tuple[str, str]:
    if vendor not in _TYPES:
        raise ValueError(f"no receipts for {vendor!r}; wanted one of {', '.join(sorted(_TYPES))}")
    types = _TYPES[vendor]
    name = types["name"].format
    table = f"""\
CREATE TABLE tickwheel_receipt (
    installation {name(64)} NOT NULL,
    effect {name(190)} NOT NULL,
    run_id BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    token VARCHAR(64) NOT NULL,
    done SMALLINT NOT NULL,
    written_at BIGINT NOT NULL,
    result {types["text"]},
    PRIMARY KEY (installation, effect)
){types["end"]}"""
    index = "CREATE INDEX ix_tickwheel_receipt_to_purge ON tickwheel_receipt (written_at)"
    return table, index


def create_receipt_table(connection: Any) -> None:
    """Create the table on this connection. Commit it, where DDL is part of a transaction.

    For scripts and migrations. In one of Django:

        migrations.RunPython(lambda apps, editor: create_receipt_table(editor.connection))

    Args:
        connection: as for `run.receipt`.

    Raises:
        ReceiptError: it is no connection that receipts know.
    """
    database = database_of(connection)
    for statement in _statements(database.vendor):
        database.execute(statement)


def purge_receipts(connection: Any, *, older_than: timedelta = _KEEP) -> int:
    """Delete up to 10,000 old receipts, and return how many. Commit, and call it until it says 0.

    A run that is delivered after its receipt is gone does its work again. So `older_than` must be
    longer than a run can live: its retries with their delays, and the longest time in which a node
    or an admin may come back.

    Args:
        connection: as for `run.receipt`.
        older_than: age of the receipts to delete, 8 days at least, for a retry may wait for 7.

    Raises:
        ValueError: less than 8 days.
        ReceiptError: it is no connection that receipts know.
    """
    if older_than < timedelta(days=8):
        raise ValueError("receipts of less than 8 days: their runs may still be tried again")
    database = database_of(connection)
    before = time.time_ns() // 1_000_000 - older_than // timedelta(milliseconds=1)
    return database.execute(VENDORS[database.vendor].purge, before, _AT_ONCE)
