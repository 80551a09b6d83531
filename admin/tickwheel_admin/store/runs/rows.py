"""Rows of the run ledger as domain runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import (
    LIVE,
    Run,
)
from tickwheel_admin.store.database.tables import run

RUN_COLUMNS = Run.__struct_fields__

SELECTED_RUN = [run.c[name] for name in RUN_COLUMNS]

LIVE_VALUES = sorted(state.value for state in LIVE)


def run_from_row(row: Any) -> Run:
    """A domain run from a row that has at least RUN_COLUMNS."""
    return msgspec.convert([getattr(row, name) for name in RUN_COLUMNS], Run)


def run_from_selected(row: sa.Row[Any]) -> Run:
    """A run from a row of `SELECTED_RUN`: by position, as names cost more than the decoding."""
    return msgspec.convert(tuple(row), Run)


def read_runs(
    conn: sa.Connection, statement: sa.Select[Any], parameters: Mapping[str, Any]
) -> list[Run]:
    """The runs that a select of `SELECTED_RUN` finds."""
    if conn.dialect.driver != "pymysql":
        return [run_from_selected(row) for row in conn.execute(statement, parameters)]
    # It takes each of forty columns apart in Python: one column with all of them is read in a
    # third of the time.
    texts = list(conn.execute(_as_arrays(statement), parameters).scalars())
    if None in texts:  # one is longer than the server's max_allowed_packet
        return [run_from_selected(row) for row in conn.execute(statement, parameters)]
    return [_decode_run(text) for text in texts]


_decode_run = msgspec.json.Decoder(Run).decode


@lru_cache(maxsize=50)
def _as_arrays(statement: sa.Select[Any]) -> sa.Select[Any]:
    return statement.with_only_columns(sa.func.json_array(*SELECTED_RUN))
