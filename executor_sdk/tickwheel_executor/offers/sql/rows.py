"""The rows of a statement, read in small pieces: however many there are, memory is bounded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import sqlalchemy as sa

from tickwheel_executor.run.context import Run

from .values import column_names, csv_line, json_value, weight

IN_RESULT, IN_LOG, NOWHERE = "result", "log", "nowhere"
MAX_READ_BYTES = 64 * 1024 * 1024  # of one statement
MAX_RESULT_BYTES = 56 * 1024  # of all rows; a result has 64 KiB at most
_AT_ONCE_ROWS = 20
_AT_ONCE_BYTES = 256 * 1024


@dataclass(slots=True, kw_only=True)
class RowReader:
    """Reads the rows of the statements of a run, one statement after the other."""

    of_run: Run
    max_rows: int  # of each statement
    to: str  # IN_RESULT, IN_LOG or NOWHERE
    kept: list[dict[str, Any]] = field(default_factory=list)  # of the last statement with rows
    is_result_full: bool = False
    _left: int = MAX_RESULT_BYTES

    def read(self, result: sa.CursorResult[Any], *, to_end: bool) -> dict[str, Any]:
        """Read the rows; returns how many, and whether that is not all.

        Args:
            to_end: read and forget what is too much, as the database may do something with each
                row; otherwise reading ends there.
        """
        names = column_names(result.keys())
        self.kept, self._left, self.is_result_full = [], MAX_RESULT_BYTES, False
        count = size = 0
        is_cut = False
        if self.to == IN_LOG:
            self.of_run.log.info("%s", csv_line(names))
        for row in _pieces(result):
            if is_cut:
                continue
            if count == self.max_rows or size > MAX_READ_BYTES:
                is_cut = True
                if not to_end:
                    break
                continue
            count += 1
            size += weight(row)
            self._take(names, row)
        return {"rows": count, "is_cut": True} if is_cut else {"rows": count}

    def _take(self, names: Sequence[str], row: Sequence[Any]) -> None:
        if self.to == IN_LOG:
            self.of_run.log.info("%s", csv_line(row))
        elif self.to == IN_RESULT and not self.is_result_full:
            self._keep(dict(zip(names, map(json_value, row), strict=True)))

    def _keep(self, row: dict[str, Any]) -> None:
        size = len(msgspec.json.encode(row)) + 1
        if size > self._left:
            self.is_result_full = True
            self.of_run.log.warning("the result has room for %d of the rows", len(self.kept))
            return
        self._left -= size
        self.kept.append(row)


def _pieces(result: sa.CursorResult[Any]) -> Iterator[Sequence[Any]]:
    """Row by row; the driver holds few of them, and fewer when they are large."""
    size = 1
    while rows := result.fetchmany(size):
        yield from rows
        widest = max(map(weight, rows))
        size = max(1, min(_AT_ONCE_ROWS, _AT_ONCE_BYTES // max(widest, 1)))
