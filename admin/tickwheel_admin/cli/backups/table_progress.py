"""How far a long command is, on a terminal; silent where nobody looks."""

from __future__ import annotations

import sys
import time

_EVERY_SECONDS = 0.1


class TableProgress:
    """One line that is written over again."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._shown_at = 0.0
        self._is_shown = sys.stderr.isatty()

    def __call__(self, table: str, rows: int, total: int) -> None:
        """So many rows of a table are done."""
        now = time.monotonic()
        if not self._is_shown or (rows < total and now - self._shown_at < _EVERY_SECONDS):
            return
        self._shown_at = now
        text = f"{self._doing} {table}: {rows:,} of {total:,}"
        print(f"\r{text:<70}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._is_shown:
            print(f"\r{'':<70}\r", end="", file=sys.stderr, flush=True)
