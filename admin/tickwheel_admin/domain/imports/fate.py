"""What an import does with each thing."""

from __future__ import annotations

from enum import StrEnum


class Fate(StrEnum):
    """What becomes of something."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    CANNOT = "cannot"  # be imported
