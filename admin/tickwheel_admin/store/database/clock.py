"""The database's clock: the only one that decides what is due (G10)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction


class database_now(GenericFunction[int]):  # noqa: N801 - SQL functions are spelled like this
    """UTC epoch milliseconds, as the database has it when the statement runs."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(database_now, "sqlite")
def _sqlite(element: Any, compiler: SQLCompiler, **kwargs: Any) -> str:
    # SQLite has no server: `Database` registers its clock parameter under this name.
    return "tickwheel_now()"


@compiles(database_now, "mysql")
@compiles(database_now, "mariadb")
def _mysql(element: Any, compiler: SQLCompiler, **kwargs: Any) -> str:
    # SYSDATE, not NOW: a statement that waited for a lock must not read the time before the wait.
    return "CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)"


@compiles(database_now, "postgresql")
def _postgresql(element: Any, compiler: SQLCompiler, **kwargs: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"


class statement_began(GenericFunction[int]):  # noqa: N801
    """UTC epoch milliseconds at the start of the statement: one value, so an index can be read by
    it. For statements that wait for no lock.
    """

    type = sa.BigInteger()
    inherit_cache = True


compiles(statement_began, "sqlite")(_sqlite)


@compiles(statement_began, "mysql")
@compiles(statement_began, "mariadb")
def _mysql_once(element: Any, compiler: SQLCompiler, **kwargs: Any) -> str:
    return "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"


@compiles(statement_began, "postgresql")
def _postgresql_once(element: Any, compiler: SQLCompiler, **kwargs: Any) -> str:
    return "CAST(EXTRACT(EPOCH FROM statement_timestamp()) * 1000 AS BIGINT)"


_NOW = sa.select(database_now())  # made once: every transaction asks for it


def now_ms(conn: sa.Connection) -> int:
    """The database's time, UTC epoch milliseconds."""
    return int(conn.execute(_NOW).scalar_one())
