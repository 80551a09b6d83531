"""What is told about something that is imported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportNote:
    """Something to tell: what is different here, or why it cannot be had."""

    code: str  # stable, for programs
    text: str  # an English sentence without its full stop


def note(code: str, text: str) -> ImportNote:
    """The short way to write one."""
    return ImportNote(code=code, text=text)
