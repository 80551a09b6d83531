"""How far an import is, on a terminal and nowhere else."""

from __future__ import annotations

import sys
from typing import TextIO

_CLEAR = "\r\x1b[K"  # what stands on the line goes


class ProgressLine:
    """One line that is written anew; nothing if the stream is no terminal.

    Args:
        total: about how many jobs there are.
        stream: where to; standard error, so that the plan can be piped elsewhere.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream.isatty()

    def show(self, what: str, done: int) -> None:
        """Say it: "read", "imported"."""
        if self._is_shown:
            total = max(self._total, done, 1)
            self._write(f"{_CLEAR}{what} {done:,} of {total:,} jobs ({done * 100 // total} %)")

    def clear(self) -> None:
        """Make room for what is printed next."""
        if self._is_shown:
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
