"""What a check found."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Grade(StrEnum):
    """How bad a finding is."""

    ERROR = "error"  # runs are lost, late or at risk
    WARNING = "warning"  # it will hurt one day


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be."""

    check: str  # which check: "database.durability"
    grade: Grade
    what: str  # a sentence
    remedy: str  # a sentence


def error(check: str, what: str, remedy: str) -> Finding:
    """A finding that must be dealt with."""
    return Finding(check=check, grade=Grade.ERROR, what=what, remedy=remedy)


def warning(check: str, what: str, remedy: str) -> Finding:
    """A finding that should be dealt with."""
    return Finding(check=check, grade=Grade.WARNING, what=what, remedy=remedy)
