"""Every so many seconds between two wall times of the chosen weekdays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.schedule.allowed_grid import AllowedGrid, WallCalendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Gap, Overlap
from tickwheel_admin.domain.schedule.cron.fields import WEEKDAY_WORDS
from tickwheel_admin.domain.schedule.describe.days import weekdays_in_words, with_days
from tickwheel_admin.domain.schedule.describe.words import Translate, every
from tickwheel_admin.domain.schedule.wall import LAST_WALL, WallGrid, WallSchedule
from tickwheel_admin.domain.schedule.wall_clock import (
    DAY_SECONDS,
    date_of_day,
    seconds_of_time,
    short_time,
)
from tickwheel_admin.domain.schedule.wall_clock_fields import (
    read_time,
    read_weekdays,
    weekdays_to_raw,
)
from tickwheel_admin.domain.schedule.zones import Zone, zone_of
from tickwheel_admin.domain.triggers.kinds.lengths import read_every, seconds_to_raw
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.reason import Reason
from tickwheel_admin.domain.triggers.spec import WallTimeSpec

ALL_WEEKDAYS = (1, 2, 3, 4, 5, 6, 7)


class DailyWindowSpec(WallTimeSpec, frozen=True, kw_only=True, tag="daily_window"):
    """Fires every `every_ms` from one wall time to another, on some weekdays."""

    kind: ClassVar[str] = "daily_window"

    every_ms: int | None = None  # whole seconds, up to a day
    from_time: str | None = None  # wall time of its first fire, "09:00:00"
    to_time: str | None = None  # no fire after this wall time; later than from_time
    weekdays: tuple[int, ...] = ()  # 1 (Monday)..7, ascending; empty: every day

    def schedule(self, *, saved_at: int, calendar: WallCalendar | None) -> WallSchedule:
        # A window that fires in each of the 24 hours goes on right after a gap by itself, so
        # nothing is invented there, as for a cron expression with such an hour field.
        overlap = Overlap.BOTH if self.overlap is Overlap.AUTO else self.overlap
        window = self._grid()
        gap = Gap.SKIP if window.covers_all_hours else self.gap
        grid: WallGrid = window if calendar is None else AllowedGrid(window, calendar)
        return WallSchedule(grid, zone_of(self.timezone), gap=gap, overlap=overlap)

    @staticmethod
    def own_fields(_: Translate) -> Sequence[OwnField]:
        return (
            OwnField(
                name="every_seconds",
                place="step",
                input=Input.LENGTH,
                label=_("Every"),
                is_required=True,
                default="15",
                unit="m",
                hint=_("Each day begins anew at the first time."),
            ),
            OwnField(
                name="from_time",
                input=Input.TIME,
                label=_("From"),
                default="09:00",
                placeholder="09:00",
            ),
            OwnField(
                name="to_time",
                input=Input.TIME,
                label=_("Until"),
                default="18:00",
                placeholder="18:00",
                beside=True,
            ),
            OwnField(
                name="weekdays",
                input=Input.WEEKDAYS,
                label=_("On"),
                hint=_("None chosen: every day."),
            ),
        )

    @staticmethod
    def read_own(fields: Fields) -> dict[str, Any]:
        every_ms = read_every(fields, low_ms=1_000, high_ms=DAY_SECONDS * 1_000)
        if every_ms is not None and every_ms % 1_000:
            fields.refuse("every_seconds", "too_fine", "Whole seconds, please.")
        from_time = read_time(fields, "from_time", default="00:00:00")
        to_time = read_time(fields, "to_time", default="23:59:59")
        if to_time <= from_time:
            fields.refuse(
                "to_time",
                "out_of_range",
                "This must be later than from_time; a window over midnight is two triggers.",
            )
        weekdays = read_weekdays(fields, "weekdays")
        if fields.raw.get("weekdays") in ([], ()):
            fields.refuse(
                "weekdays",
                "required",
                "Name at least one weekday, or leave this out for every day.",
            )
        return {
            "every_ms": every_ms,
            "from_time": from_time,
            "to_time": to_time,
            "weekdays": () if weekdays == ALL_WEEKDAYS else weekdays,
        }

    def own_to_raw(self) -> dict[str, Any]:
        return {
            "every_seconds": seconds_to_raw(self.every_ms),
            "from_time": self.from_time,
            "to_time": self.to_time,
            "weekdays": weekdays_to_raw(self.weekdays or ALL_WEEKDAYS),
        }

    @staticmethod
    def name_and_hint(_: Translate) -> tuple[str, str]:
        return (
            _("Daily window"),
            _("Every so often between two times of day, on the weekdays you choose."),
        )

    def describe(self, _: Translate) -> str:
        text = every(self.every_ms or 0, _)
        start = seconds_of_time(self.from_time or "00:00")
        end = seconds_of_time(self.to_time or "23:59:59")
        covers_day = start == 0 and end == DAY_SECONDS - 1
        if not covers_day or DAY_SECONDS * 1000 % (self.every_ms or 1):
            text = _("%(rhythm)s from %(first)s to %(last)s") % {
                "rhythm": text,
                "first": short_time(start),
                "last": short_time(end),
            }
        days = None
        if 0 < len(self.weekdays) < 7:
            days = weekdays_in_words(self.weekdays, _, beside_rhythm=True)
        return with_days(text, days, _)

    def why_not_on(self, day: int, everything: Schedule, zone: Zone) -> Iterable[Reason]:
        weekday = date_of_day(day).isoweekday()
        if self.weekdays and weekday not in self.weekdays:
            yield Reason(
                code="weekday",
                template="Its weekdays leave %(weekday)s out.",
                params={"weekday": WEEKDAY_WORDS[weekday % 7]},
            )

    def _grid(self) -> WindowGrid:
        every_ms = self.every_ms or 0
        if not 1_000 <= every_ms <= DAY_SECONDS * 1_000 or every_ms % 1_000:
            raise ScheduleError(
                "every_seconds", "A daily window needs an interval from 1 second to a day."
            )
        start = _time(self.from_time, "from_time")
        end = _time(self.to_time, "to_time")
        if end <= start:
            raise ScheduleError("to_time", "A daily window ends later than it starts.")
        if not all(1 <= number <= 7 for number in self.weekdays):
            raise ScheduleError("weekdays", "Weekdays are 1 (Monday) to 7 (Sunday).")
        return WindowGrid(every=every_ms // 1_000, start=start, end=end, weekdays=self.weekdays)


class WindowGrid:
    """from + k * every up to `to`, anew on each of the weekdays; lengths in seconds."""

    def __init__(self, *, every: int, start: int, end: int, weekdays: tuple[int, ...]) -> None:
        self._every = every
        self._start = start  # seconds since midnight
        self._last = start + (end - start) // every * every  # of a day
        self._weekdays = frozenset(weekdays) or frozenset(range(1, 8))
        hours = {second // 3_600 for second in range(start, self._last + 1, every)}
        self.covers_all_hours = len(hours) == 24

    def at_or_after(self, wall: int) -> int | None:
        day, second = divmod(max(wall, 0), DAY_SECONDS)
        if second > self._last or not self._counts(day):
            day, second = day + 1, 0
            while not self._counts(day):
                day += 1
        steps = max(-((self._start - second) // self._every), 0)
        found = day * DAY_SECONDS + self._start + steps * self._every
        return found if found <= LAST_WALL else None

    def at_or_before(self, wall: int) -> int | None:
        if wall < 0:
            return None
        day, second = divmod(min(wall, LAST_WALL), DAY_SECONDS)
        if second < self._start or not self._counts(day):
            day, second = day - 1, DAY_SECONDS
            while not self._counts(day):
                day -= 1
        if day < 0:
            return None
        steps = (min(second, self._last) - self._start) // self._every
        return day * DAY_SECONDS + self._start + steps * self._every

    def _counts(self, day: int) -> bool:
        return (day + 3) % 7 + 1 in self._weekdays  # 1970-01-01 was a Thursday


def _time(text: str | None, field: str) -> int:
    try:
        seconds = seconds_of_time(text or "")
    except ValueError:
        seconds = DAY_SECONDS
    if seconds >= DAY_SECONDS:
        raise ScheduleError(field, "This must be a wall time from 00:00 to 23:59:59.")
    return seconds
