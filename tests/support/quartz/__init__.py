"""Tables that Quartz itself wrote, and when it says that each trigger fires.

`tables.json` is what `tests/interop/test_quartz.py` made; it says how to make it anew.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

FILE = Path(__file__).parent / "tables.json"
_BLOBS = ("JOB_DATA", "CALENDAR", "BLOB_DATA")
_NUMBERS = ("NEXT_FIRE_TIME", "PREV_FIRE_TIME", "START_TIME", "END_TIME", "REPEAT_COUNT")
_FLAGS = (
    *("IS_DURABLE", "IS_NONCONCURRENT", "IS_UPDATE_DATA", "REQUESTS_RECOVERY"),
    *("BOOL_PROP_1", "BOOL_PROP_2"),
)


@cache
def recorded() -> dict[str, Any]:
    """`tables`: rows by table; `fires`: epoch ms by "group.name" of the trigger."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def fires() -> dict[str, list[int]]:
    """The next 50 fires of each trigger of the scheduler “billing”."""
    stored: dict[str, list[int]] = recorded()["fires"]
    # The first one, then how long after the one before each of them is.
    return {
        name: [sum(steps[: place + 1]) for place in range(len(steps))]
        for name, steps in stored.items()
    }


def write_tables(url: str) -> None:
    """Put the recorded tables into an empty database, with the types that its script has."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    is_postgresql = engine.dialect.name == "postgresql"
    metadata = sa.MetaData()
    with engine.begin() as connection:
        for name, content in recorded()["tables"].items():
            columns = content["columns"]
            table = sa.Table(
                name.lower() if is_postgresql else name,
                metadata,
                *(_column(each, is_postgresql) for each in columns),
            )
            table.create(connection)
            names = [column.name for column in table.c]
            rows = [
                {
                    name: _value(column, value, is_postgresql)
                    for name, column, value in zip(names, columns, row, strict=True)
                }
                for row in content["rows"]
            ]
            if rows:
                connection.execute(sa.insert(table), rows)
    engine.dispose()


def _column(name: str, is_postgresql: bool) -> sa.Column[Any]:
    kind: sa.types.TypeEngine[Any] = sa.String(200)
    if name in _BLOBS:
        kind = sa.LargeBinary()
    elif name in _FLAGS:
        kind = sa.Boolean() if is_postgresql else sa.String(1)
    elif name in _NUMBERS or name.startswith(("INT_", "LONG_", "REPEAT_", "TIMES_", "MISFIRE_")):
        kind = sa.BigInteger()
    elif name == "PRIORITY":
        kind = sa.Integer()
    return sa.Column(name.lower() if is_postgresql else name, kind)


def _value(column: str, value: Any, is_postgresql: bool) -> Any:
    if column in _BLOBS:
        return None if value is None else bytes.fromhex(value)
    if column in _FLAGS and is_postgresql:
        return None if value is None else value == "1"
    return value
