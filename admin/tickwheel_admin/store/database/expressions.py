"""Rows of many ids at once: their list in the form that costs each driver least."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import InternalTraversal


class among(sa.ColumnElement[bool]):  # noqa: N801 - reads like the SQL operator it replaces
    """`column IN (the integers of this parameter)`.

    On PostgreSQL the list is one array: a statement whose text is always the same, which the server
    prepares once. Elsewhere the ids are written into the text: a thousand parameters take longer
    than what is done with them.
    """

    inherit_cache = True
    type = sa.Boolean()
    _traverse_internals = [  # noqa: RUF012
        ("column", InternalTraversal.dp_clauseelement),
        ("parameter", InternalTraversal.dp_string),
    ]

    def __init__(self, column: sa.ColumnElement[int], parameter: str) -> None:
        self.column = column
        self.parameter = parameter

    def self_group(self, against: Any = None) -> sa.ColumnElement[bool]:
        return self  # else it is compared with 1 where there is no type for truth


class _Integers(sa.types.UserDefinedType[Any]):
    """Many integers as one text: SQLAlchemy would write them into the statement one by one."""

    cache_ok = True

    def literal_processor(self, dialect: sa.Dialect) -> Callable[[Any], str]:
        # Nothing but integers: others would be SQL. `NULL` is among nothing.
        return lambda ids: ", ".join([str(int(each)) for each in ids]) or "NULL"


@compiles(among)
def _listed(element: among, compiler: SQLCompiler, **kwargs: Any) -> str:
    ids = sa.bindparam(element.parameter, type_=_Integers, literal_execute=True)
    column = compiler.process(element.column, **kwargs)
    return f"{column} IN ({compiler.process(ids, **kwargs)})"


@compiles(among, "postgresql")
def _array(element: among, compiler: SQLCompiler, **kwargs: Any) -> str:
    ids = sa.bindparam(element.parameter, type_=ARRAY(sa.BigInteger))
    return compiler.process(element.column == sa.any_(ids), **kwargs)
