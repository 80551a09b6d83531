"""Rows of Quartz's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_TRIGGERS = 50  # of one job here; a job with more becomes several


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartzTrigger:
    """A trigger with the row of its kind; instants are UTC epoch ms."""

    name: str
    group: str
    kind: str  # CRON, SIMPLE, CAL_INT, DAILY_I, BLOB
    state: str = "WAITING"
    description: str = ""
    next_fire_at: int | None = None  # None: it fires no more
    start_at: int = 0
    end_at: int | None = None
    priority: int = 5  # higher ones first
    misfire: int = 0
    calendar: str | None = None
    data: bytes | None = field(default=None, repr=False)
    own: Mapping[str, Any] = field(default_factory=dict)  # the columns of its kind, in lower case
    is_damaged: bool = False  # a number in its row is none

    @property
    def label(self) -> str:
        return f"{self.group}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartzJob:
    """A job with at most 50 of its triggers."""

    name: str
    group: str
    class_name: str
    description: str = ""
    is_nonconcurrent: bool = False
    keeps_data: bool = False
    requests_recovery: bool = False
    data: bytes | None = field(default=None, repr=False)
    triggers: Sequence[QuartzTrigger] = ()
    part: int = 1  # of a job with more triggers


@dataclass(frozen=True, slots=True, kw_only=True)
class QuartzCalendar:
    """A calendar as it is stored."""

    name: str
    content: bytes = field(repr=False)


def is_true(value: object) -> bool:
    """A truth value, whichever of the types it has that databases use for it."""
    return value in (True, 1, "1", "t", "T", "true", "TRUE", "y", "Y", b"1", b"\x01")
