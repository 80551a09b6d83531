"""Words to query planners that would otherwise take an index that sorts nothing."""

from __future__ import annotations

from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

T = TypeVar("T")


class unindexed(sa.ColumnElement[T]):  # noqa: N801 - reads like the SQL function it replaces
    """A column that SQLite must not choose an index for; plain everywhere else.

    SQLite keeps no statistics unless told to, and counts only how many columns of an index a
    condition fixes: with a long queue it reads all of it and sorts.
    """

    inherit_cache = True
    _traverse_internals = [("column", sa.sql.visitors.InternalTraversal.dp_clauseelement)]  # noqa: RUF012

    def __init__(self, column: sa.Column[T]) -> None:
        self.column = column
        self.type = column.type


@compiles(unindexed)
def _plain(element: unindexed[Any], compiler: SQLCompiler, **kwargs: Any) -> str:
    return compiler.process(element.column, **kwargs)


@compiles(unindexed, "sqlite")
def _sqlite(element: unindexed[Any], compiler: SQLCompiler, **kwargs: Any) -> str:
    return "+" + compiler.process(element.column, **kwargs)


def reading(statement: sa.Select[Any], table: sa.FromClause, index: str) -> sa.Select[Any]:
    """The statement with its index named to MySQL and MariaDB, whose estimates of long ranges
    now and then make them sort half a table instead.
    """
    hint = f"FORCE INDEX ({index})"
    return statement.with_hint(table, hint, "mysql").with_hint(table, hint, "mariadb")
