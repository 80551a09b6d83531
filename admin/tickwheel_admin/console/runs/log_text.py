"""Log lines as a plain text file shows them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from tickwheel_admin.domain.text_lines import continued, without_controls
from tickwheel_admin.services.runs.service import LogEntry


def log_text(entries: Iterable[LogEntry]) -> str:
    """One entry each: instant in UTC, level, text. Further lines of a text are set in by four
    spaces, so that whatever begins at the margin is an entry that the admin wrote.
    """
    return "".join(
        f"{_moment(entry.at)} {str(entry.level).upper():7} {_text(entry.text)}\n"
        for entry in entries
    )


def _text(text: str) -> str:
    return text if text.isprintable() else without_controls(continued(text))


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
