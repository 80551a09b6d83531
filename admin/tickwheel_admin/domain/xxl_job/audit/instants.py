"""The instants at which XXL-JOB should have run a job."""

from __future__ import annotations

from typing import Protocol

from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron import Cron, parse_cron
from tickwheel_admin.domain.schedule.cron.dialect import Dialect
from tickwheel_admin.domain.schedule.zones import Zone
from tickwheel_admin.domain.xxl_job.records import ScheduleType, XxlJob

MAX_RATE_SECONDS = 366 * 86_400


class NotJudged(ValueError):
    """Why a job has no instants that could be computed, as a sentence."""


class Instants(Protocol):
    """Instants of a job in UTC seconds, ascending; rows may move those that are yet to come."""

    def next_after(self, second: int) -> int | None:
        """The first one strictly after a second; None when there is none."""
        ...

    def early(self) -> int:
        """By how many seconds a row may be before its instant."""
        ...

    def ran(self, instant: int, at: int) -> bool:
        """A row was found for the newest instant; whether that moves those after both."""
        ...


def instants_of(job: XxlJob, zone: Zone) -> Instants:
    """The instants of a job's schedule.

    Raises:
        NotJudged: it has no schedule, or one that cannot be read.
    """
    if job.schedule_type == ScheduleType.CRON:
        return CronInstants(job.schedule_conf, zone)
    if job.schedule_type == ScheduleType.FIX_RATE:
        return RateInstants(_seconds(job.schedule_conf))
    if job.schedule_type == ScheduleType.NONE:
        raise NotJudged("has no schedule")
    raise NotJudged(f"schedule type {job.schedule_type[:30]} is not known")


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_RATE_SECONDS):
        raise NotJudged(f"“{text[:30]}” is not a number of seconds")
    return int(text)


class CronInstants:
    """A Quartz expression.

    A wall time that happens twice counts in the second pass, as Java's calendar reads it, unless
    the expression is an interval: then both count. Times that the clocks skip are one instant at
    the end of the gap; XXL-JOB drops them, and its interval jobs fall silent in the repeated hour.
    """

    def __init__(self, text: str, zone: Zone) -> None:
        try:
            expression = parse_cron(text, Dialect.QUARTZ)
            overlap = Overlap.BOTH if expression.is_interval else Overlap.SECOND
            self._cron = Cron(expression, zone, gap=Gap.FIRE, overlap=overlap)
        except ScheduleError as error:
            raise NotJudged(f"its cron expression is not understood: {error}") from None
        self.names_hours = not expression.covers_all_hours

    def next_after(self, second: int) -> int | None:
        found = self._cron.next_after(second * 1_000)
        return None if found is None else found // 1_000

    def early(self) -> int:
        return 0  # instants are whole seconds, and times are rounded to the nearest one

    def ran(self, instant: int, at: int) -> bool:
        return False


class RateInstants:
    """Every so many seconds from the last trigger.

    A trigger that came late moves all that follow if the scheduler was late, and none if only the
    start of the run was: which one it was is seen by the next row, which may come that much earlier
    than expected. Instants have milliseconds and are started up to a second early.
    """

    names_hours = False

    def __init__(self, every: int) -> None:
        self.every = every
        self._anchor: int | None = None
        self._doubt = 0  # seconds by which the last row was late

    def anchor(self, second: int) -> None:
        """Say where they are counted from, if nothing has said so before."""
        if self._anchor is None:
            self._anchor = second

    def next_after(self, second: int) -> int | None:
        if self._anchor is None:
            return None
        return self._anchor + ((second - self._anchor) // self.every + 1) * self.every

    def early(self) -> int:
        return min(self._doubt + 1, self.every - 1)

    def ran(self, instant: int, at: int) -> bool:
        self._doubt = max(0, at - instant)
        self._anchor = at
        return True
