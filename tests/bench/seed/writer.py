"""Many rows into an empty database, the way each database takes them fastest.

Rows are lines of the text form that PostgreSQL's COPY and MySQL's LOAD DATA have in common: values
between tabs, `\\N` for NULL, backslashes doubled.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import sqlalchemy as sa

NULL = "\\N"
LINES_PER_BATCH = 50_000


def line(*values: object) -> str:
    """One row; what is None becomes NULL, and a truth value 1 or 0."""
    return "\t".join(_text(value) for value in values)


def _text(value: object) -> str:
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
    return str(value)


class Writer:
    """Writes lines to tables of one database, each batch a transaction."""

    def __init__(self, url: str) -> None:
        made = sa.make_url(url)
        self.kind = made.get_backend_name()
        arguments: dict[str, Any] = {"local_infile": True} if self.kind in MYSQL else {}
        # None of the limits of `store.connections`: building an index takes minutes.
        self.engine = sa.create_engine(made, connect_args=arguments)

    def write(self, table: sa.Table, columns: Sequence[str], lines: Iterable[str]) -> Iterator[int]:
        """Insert rows; yields after each batch how many they are by then."""
        rest, written = iter(lines), 0
        while batch := list(islice(rest, LINES_PER_BATCH)):
            with self.engine.begin() as conn:
                self._write(conn, table, columns, batch)
            written += len(batch)
            yield written

    def write_all(self, table: sa.Table, columns: Sequence[str], lines: Iterable[str]) -> int:
        """`write` to the end; returns how many rows."""
        return max(self.write(table, columns, lines), default=0)

    def drop_indexes(self, table: sa.Table) -> None:
        """Those that are no key: building them at the end takes a fraction of the time."""
        with self.engine.begin() as conn:
            for index in table.indexes:
                index.drop(conn)

    def make_indexes(self, table: sa.Table) -> None:
        """The indexes that `drop_indexes` took away."""
        with self.engine.begin() as conn:
            if self.kind not in MYSQL:
                for index in table.indexes:
                    index.create(conn)
                return
            added = ", ".join(f"ADD {_index(index)}" for index in table.indexes)
            conn.exec_driver_sql(f"ALTER TABLE `{table.name}` {added}")  # one pass for all of them

    def analyze(self) -> None:
        """Let the database count what it has, as it does by itself in time."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            if self.kind in MYSQL:
                names = sa.inspect(conn).get_table_names()
                conn.exec_driver_sql(f"ANALYZE TABLE {', '.join(f'`{name}`' for name in names)}")
            elif self.kind == "postgresql":
                conn.exec_driver_sql("VACUUM ANALYZE")

    def _write(
        self, conn: sa.Connection, table: sa.Table, columns: Sequence[str], lines: list[str]
    ) -> None:
        names = ", ".join(conn.dialect.identifier_preparer.quote(name) for name in columns)
        into = conn.dialect.identifier_preparer.quote(table.name)
        raw: Any = conn.connection.driver_connection
        if self.kind == "sqlite":
            marks = ", ".join("?" * len(columns))
            # Its columns turn digits into numbers themselves.
            rows = [[_back(value) for value in text.split("\t")] for text in lines]
            raw.executemany(f"INSERT INTO {into} ({names}) VALUES ({marks})", rows)
        elif self.kind == "postgresql":
            with raw.cursor() as cursor, cursor.copy(f"COPY {into} ({names}) FROM STDIN") as copy:
                copy.write("\n".join(lines) + "\n")
        else:
            self._load(conn, into, names, lines)

    def _load(self, conn: sa.Connection, into: str, names: str, lines: list[str]) -> None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", delete=False) as file:
            file.write("\n".join(lines) + "\n")
        try:
            conn.exec_driver_sql(
                f"LOAD DATA LOCAL INFILE '{file.name}' INTO TABLE {into} CHARACTER SET utf8mb4"
                f" FIELDS TERMINATED BY '\\t' ({names})"
            )
        finally:
            os.unlink(file.name)


def _index(index: sa.Index) -> str:
    kind = "UNIQUE INDEX" if index.unique else "INDEX"
    return f"{kind} `{index.name}` ({', '.join(f'`{column.name}`' for column in index.columns)})"


def _back(value: str) -> str | None:
    return None if value == NULL else value.replace("\\\\", "\\")


MYSQL = ("mysql", "mariadb")
