"""Statements that were compiled for one engine serve all others of its kind of database.

Each test has an engine of its own, and would compile all over again what the tests before it have
compiled: a sixth of the time of the tests with a database.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.util import LRUCache

_caches: dict[object, MutableMapping[Any, Any]] = {}


def share_compiled_statements() -> None:
    """For every engine that this process makes from now on."""
    create_engine = sa.create_engine

    def create(url: str | sa.URL, **settings: Any) -> sa.Engine:
        engine = create_engine(url, **settings)
        _make_alike(type(engine.dialect))
        cache = _caches.setdefault(type(engine.dialect), LRUCache(5_000))
        engine._compiled_cache = cache
        return engine

    sa.create_engine = create


def _make_alike(kind: Any) -> None:
    """Its dialects are equal that compile statements alike: they are part of the cache's keys."""
    if kind.__eq__ is object.__eq__:
        kind.__eq__ = _compiles_alike
        kind.__hash__ = _hash


def _compiles_alike(one: sa.Dialect, other: object) -> bool:
    return one is other or (type(one) is type(other) and _decisive(one) == _decisive(other))


def _hash(dialect: sa.Dialect) -> int:
    return hash(type(dialect))


def _decisive(dialect: Any) -> tuple[object, ...]:
    """What may make two dialects of a kind compile a statement differently."""
    return (
        dialect.server_version_info,
        dialect.paramstyle,
        getattr(dialect, "_backslash_escapes", None),
    )
