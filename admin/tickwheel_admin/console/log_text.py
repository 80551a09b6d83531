"""Log lines as a plain text file shows them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from tickwheel_admin.services.runs import LogEntry


def log_text(entries: Iterable[LogEntry]) -> str:
    """One line each: instant in UTC, level, text."""
    return "".join(
        f"{_moment(entry.at)} {str(entry.level).upper():7} {entry.text}\n" for entry in entries
    )


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
