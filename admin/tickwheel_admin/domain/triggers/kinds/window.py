"""Once in a window of the day; the start within it is chosen by measurement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

from msgspec import structs

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.schedule.allowed_grid import AllowedGrid, WallCalendar
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.clock_changes import Overlap
from tickwheel_admin.domain.schedule.cron.fields import WEEKDAY_WORDS
from tickwheel_admin.domain.schedule.describe.days import weekdays_in_words, with_days
from tickwheel_admin.domain.schedule.describe.words import Translate, moment
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
from tickwheel_admin.domain.triggers.own_fields import Input, OwnField
from tickwheel_admin.domain.triggers.placement import AfterMove, WindowPlacement, placement_in_words
from tickwheel_admin.domain.triggers.reason import Reason
from tickwheel_admin.domain.triggers.spec import TriggerSpec, WallTimeSpec

ALL_WEEKDAYS = (1, 2, 3, 4, 5, 6, 7)


class WindowSpec(WallTimeSpec, frozen=True, kw_only=True, tag="window"):
    """Fires once between two wall times, on some weekdays; the window may pass midnight.

    Where in the window is what `placement` says, and its end as long as that says nothing. The
    engine places it (`engine.maintenance.window_placer`); people do not, and so the placement is
    stored with the trigger, and not with the job's configuration.
    """

    kind: ClassVar[str] = "window"
    is_placed: ClassVar[bool] = True

    from_time: str | None = None  # wall time at which the window begins, "01:00:00"
    to_time: str | None = None  # and at which it ends, which is the last start
    done_by: str | None = None  # wall time at which a run should have ended; None: it may last
    weekdays: tuple[int, ...] = ()  # 1 (Monday)..7, ascending: when it begins; empty: every day
    placement: WindowPlacement | None = None

    # --- the window --------------------------------------------------------------------------

    @property
    def begin(self) -> int:
        """Its begin in seconds since midnight."""
        return _time(self.from_time, "from_time")

    @property
    def length(self) -> int:
        """Its length in seconds, less than a day."""
        return (_time(self.to_time, "to_time") - self.begin) % DAY_SECONDS

    @property
    def length_until_done(self) -> int | None:
        """From its begin to `done_by` in seconds, less than a day; None: there is none."""
        if self.done_by is None:
            return None
        return (_time(self.done_by, "done_by") - self.begin) % DAY_SECONDS

    @property
    def start(self) -> int:
        """When it fires, in seconds from the midnight before the window begins."""
        return self.begin + (self.length if self.placement is None else self.placement.offset * 60)

    # --- when it fires -----------------------------------------------------------------------

    def schedule(self, *, saved_at: int, calendar: WallCalendar | None) -> Schedule:
        overlap = Overlap.FIRST if self.overlap is Overlap.AUTO else self.overlap
        if not self.length:
            raise ScheduleError("to_time", "A window needs an end that is not its begin.")
        if (until_done := self.length_until_done) is not None and until_done < self.length:
            raise ScheduleError("done_by", "This must not be before the window's end.")
        if not all(1 <= number <= 7 for number in self.weekdays):
            raise ScheduleError("weekdays", "Weekdays are 1 (Monday) to 7 (Sunday).")
        once = OncePerWindow(start=self.start, weekdays=self.weekdays)
        grid: WallGrid = once if calendar is None else AllowedGrid(once, calendar)
        schedule = WallSchedule(grid, zone_of(self.timezone), gap=self.gap, overlap=overlap)
        placed = self.placement
        if placed is None or placed.former_at is None:
            return schedule
        return AfterMove(
            schedule,
            moved_at=placed.chosen_at,
            former_at=placed.former_at,
            begin=placed.former_at - placed.former_offset * 60_000,
        )

    def as_written(self) -> Self:
        return structs.replace(self, placement=None)

    def placed_as(self, others: Iterable[TriggerSpec]) -> Self:
        for other in others:
            if isinstance(other, WindowSpec) and self._is_same_window(other):
                return structs.replace(self, placement=other.placement)
        return self

    def _is_same_window(self, other: WindowSpec) -> bool:
        return (self.from_time, self.to_time, self.done_by, self.timezone) == (
            other.from_time, other.to_time, other.done_by, other.timezone
        )  # fmt: skip

    # --- as people and programs write it -----------------------------------------------------

    @staticmethod
    def own_fields(_: Translate) -> Sequence[OwnField]:
        return (
            OwnField(
                name="from_time",
                place="window_from",
                input=Input.TIME,
                label=_("Starts between"),
                is_required=True,
                default="01:00",
                placeholder="01:00",
            ),
            OwnField(
                name="to_time",
                place="window_to",
                input=Input.TIME,
                label=_("and"),
                is_required=True,
                default="05:00",
                placeholder="05:00",
                beside=True,
                hint=_("Before the first time: on the next day."),
            ),
            OwnField(
                name="done_by",
                input=Input.TIME,
                label=_("Done by"),
                placeholder="06:00",
                hint=_("No start is chosen from which 19 of 20 runs would last longer."),
            ),
            OwnField(
                name="weekdays",
                place="window_weekdays",
                input=Input.WEEKDAYS,
                label=_("On"),
                hint=_("When the window begins. None chosen: every day."),
            ),
        )

    @staticmethod
    def read_own(fields: Fields) -> dict[str, Any]:
        for name in ("from_time", "to_time"):
            if not fields.has(name):
                fields.refuse(name, "required", "This is required.")
        from_time = read_time(fields, "from_time", default="00:00:00")
        to_time = read_time(fields, "to_time", default="23:59:59")
        done_by = read_time(fields, "done_by", default="") or None
        spec = WindowSpec(from_time=from_time, to_time=to_time, done_by=done_by)
        if not spec.length:
            fields.refuse("to_time", "out_of_range", "A window needs an end that is not its begin.")
        if (until_done := spec.length_until_done) is not None and until_done < spec.length:
            fields.refuse("done_by", "out_of_range", "This must not be before the window's end.")
        weekdays = read_weekdays(fields, "weekdays")
        if fields.raw.get("weekdays") in ([], ()):
            fields.refuse(
                "weekdays",
                "required",
                "Name at least one weekday, or leave this out for every day.",
            )
        return {
            "from_time": from_time,
            "to_time": to_time,
            "done_by": done_by,
            "weekdays": () if weekdays == ALL_WEEKDAYS else weekdays,
        }

    def own_to_raw(self) -> dict[str, Any]:
        return {
            "from_time": self.from_time,
            "to_time": self.to_time,
            "done_by": self.done_by,
            "weekdays": weekdays_to_raw(self.weekdays or ALL_WEEKDAYS),
        }

    # --- in words ----------------------------------------------------------------------------

    @staticmethod
    def name_and_hint(_: Translate) -> tuple[str, str]:
        return (
            _("Window"),
            _(
                "Once between two times of day. When exactly is chosen by the load that is "
                "forecast and by how long its runs take."
            ),
        )

    def describe(self, _: Translate) -> str:
        values = {
            "first": short_time(seconds_of_time(self.from_time or "00:00")),
            "last": short_time(seconds_of_time(self.to_time or "23:59:59")),
        }
        if self.done_by is None:
            text = _("once between %(first)s and %(last)s") % values
        else:
            values["done_by"] = short_time(seconds_of_time(self.done_by))
            text = _("once between %(first)s and %(last)s, done by %(done_by)s") % values
        days = None
        if 0 < len(self.weekdays) < 7:
            days = weekdays_in_words(self.weekdays, _, beside_rhythm=False)
        return with_days(text, days, _)

    def describe_own(self, _: Translate) -> list[str]:
        found = [self.placement_in_words(_)]
        if self.placement is not None:
            at = self.placement.chosen_at // 60_000 * 60_000
            found.append(_("Placed on %(moment)s UTC") % {"moment": moment(at)})
        return found

    def placement_in_words(self, _: Translate) -> str:
        """When in its window it fires, and why there."""
        if self.placement is not None:
            done_by = None if self.done_by is None else seconds_of_time(self.done_by)
            return placement_in_words(self.placement, begin=self.begin, done_by=done_by, _=_)
        return _("%(start)s: the end of its window, until enough runs are measured to place it") % {
            "start": short_time(self.start % DAY_SECONDS)
        }

    def why_not_on(self, day: int, everything: Schedule, zone: Zone) -> Iterable[Reason]:
        weekday = date_of_day(day - self.start // DAY_SECONDS).isoweekday()
        if self.weekdays and weekday not in self.weekdays:
            yield Reason(
                code="weekday",
                template="Its weekdays leave %(weekday)s out.",
                params={"weekday": WEEKDAY_WORDS[weekday % 7]},
            )


class OncePerWindow:
    """One wall time for each window that begins on one of the weekdays."""

    def __init__(self, *, start: int, weekdays: tuple[int, ...]) -> None:
        """Args:
        start: seconds from the midnight before the window begins, less than two days.
        """
        self._start = start
        self._weekdays = frozenset(weekdays) or frozenset(ALL_WEEKDAYS)

    def at_or_after(self, wall: int) -> int | None:
        day = -(-(max(wall, 0) - self._start) // DAY_SECONDS)
        while not self._counts(day):
            day += 1
        found = day * DAY_SECONDS + self._start
        return found if found <= LAST_WALL else None

    def at_or_before(self, wall: int) -> int | None:
        day = (min(wall, LAST_WALL) - self._start) // DAY_SECONDS
        while not self._counts(day):
            day -= 1
        found = day * DAY_SECONDS + self._start
        return found if found >= 0 else None

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
