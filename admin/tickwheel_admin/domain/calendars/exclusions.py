"""Cron expressions as parts of days, for the calendars that exclude what they match."""

from __future__ import annotations

from tickwheel_admin.domain.calendars.calendar import CronExclusion
from tickwheel_admin.domain.schedule.cron import FieldKind, parse_cron
from tickwheel_admin.domain.schedule.cron.months import SHAPE_OF_MONTH
from tickwheel_admin.domain.schedule.wall_clock import MAX_YEAR, MIN_YEAR


class Exclusion:
    """The wall times that an expression matches: some days, and the same seconds of each.

    Raises:
        ScheduleError: the expression is refused.
    """

    def __init__(self, exclusion: CronExclusion) -> None:
        self._expression = parse_cron(exclusion.expression, exclusion.dialect)
        fields = self._expression.fields
        hour = _spread(fields[FieldKind.SECOND].mask, fields[FieldKind.MINUTE].mask, 60)
        # Bit s is set when second s of the day matches.
        self.seconds = _spread(hour, fields[FieldKind.HOUR].mask, 3_600)
        self._months = fields[FieldKind.MONTH].mask
        self._years = fields[FieldKind.YEAR].mask

    def days(self, year: int, month: int) -> int:
        """Bit d (1..31) is set when day d matches."""
        if not MIN_YEAR <= year <= MAX_YEAR or not self._months >> month & 1:
            return 0
        if not self._years >> year - MIN_YEAR & 1:
            return 0
        shape = SHAPE_OF_MONTH[12 * (year - MIN_YEAR) + month - 1]
        return self._expression.days(shape) << 1


def _spread(pattern: int, places: int, width: int) -> int:
    """A pattern put at each of the places whose bit is set, which are `width` bits apart."""
    found = 0
    for place in range(places.bit_length()):
        if places >> place & 1:
            found |= pattern << place * width
    return found
