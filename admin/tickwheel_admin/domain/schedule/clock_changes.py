"""What a schedule does with wall times when the clocks change."""

from __future__ import annotations

from enum import StrEnum


class Gap(StrEnum):
    """What becomes of wall times that the clocks skip when they go forward."""

    FIRE = "fire"  # all that fall into the gap are one fire at the first instant after it
    SKIP = "skip"  # they do not fire


class Overlap(StrEnum):
    """What becomes of wall times that happen twice when the clocks go back."""

    AUTO = (
        "auto"  # both for an interval (`*`, `-` or `/` in second, minute or hour), else the first
    )
    FIRST = "first"
    SECOND = "second"
    BOTH = "both"
