"""Cron expressions as parts of days."""

from __future__ import annotations

from typing import Protocol

from tickwheel_admin.domain.calendar import CronExclusion
from tickwheel_admin.domain.schedule.base import ScheduleError


class Exclusion(Protocol):
    """The wall times that a cron expression matches."""

    seconds: int  # of each of its days: bit s is set when second s of the day matches

    def days(self, year: int, month: int) -> int:
        """Bit d is set when day d matches."""
        ...


def exclusion_of(exclusion: CronExclusion) -> Exclusion:
    """Made ready; raises ScheduleError."""
    raise ScheduleError("cron", "Cron exclusions are not known here.")
