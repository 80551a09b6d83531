"""Rows of the run ledger as domain runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_admin.domain.runs.run import (
    LIVE,
    Run,
)
from tickwheel_admin.store.database.structs import StructReader
from tickwheel_admin.store.database.tables import run

RUN_COLUMNS = Run.__struct_fields__

_runs = StructReader(Run, run)
SELECTED_RUN = list(_runs.columns)

LIVE_VALUES = sorted(state.value for state in LIVE)


def run_from_row(row: Any) -> Run:
    """A domain run from a row that has at least RUN_COLUMNS."""
    return msgspec.convert([getattr(row, name) for name in RUN_COLUMNS], Run)


def run_from_selected(row: sa.Row[Any]) -> Run:
    """A run from a row of `SELECTED_RUN`."""
    return _runs.from_row(row)


def read_runs(
    conn: sa.Connection, statement: sa.Select[Any], parameters: Mapping[str, Any]
) -> list[Run]:
    """The runs that a select of `SELECTED_RUN` finds."""
    return _runs.read(conn, statement, parameters)
