"""The dialects that cron expressions are written in."""

from __future__ import annotations

from enum import StrEnum


class Dialect(StrEnum):
    """How a cron expression is read: the same text means different things."""

    UNIX = "unix"  # 5 fields and macros, 0 and 7 are Sunday, either of the two days counts
    QUARTZ = "quartz"  # 6 or 7 fields, 1 is Sunday; also XXL-JOB's
    SPRING = "spring"  # 6 fields, 0 and 7 are Sunday
