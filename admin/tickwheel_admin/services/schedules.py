"""What schedules mean: previews and explanations of triggers, and how full the next days are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.schedule.describe import describe
from tickwheel_admin.domain.trigger import TriggerSpec
from tickwheel_admin.domain.trigger_input import parse_trigger
from tickwheel_admin.domain.user import Actor
from tickwheel_admin.services.coming import Coming
from tickwheel_admin.services.coming import Heat as Heat
from tickwheel_admin.services.coming import HeatMinute as HeatMinute
from tickwheel_admin.services.coming import HeatRow as HeatRow
from tickwheel_admin.services.job_lists import fires_of
from tickwheel_admin.store.calendars import Calendars
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.database import Store

MAX_PREVIEW = 100

Translate = Callable[[str], str]


def _as_written(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewFire:
    """A fire of a preview."""

    at: int
    offset_minutes: int  # of local time from UTC
    mark: str | None = None  # "gap", "overlap_first", "overlap_second", "dst_night"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedDay:
    """A day on which a calendar takes away what would fire."""

    date: str  # "2026-10-01", in the trigger's zone
    calendar: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A rule that keeps a trigger from firing on a date."""

    code: str
    template: str  # English message id
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Where a second cron library computes another fire."""

    ours: int | None
    theirs: int | None
    why: str  # English message id


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePreview:
    """What a trigger would do if it were saved now."""

    spec: TriggerSpec
    description: str  # in the words that `translate` gives
    details: tuple[str, ...]  # bounds, calendar, jitter and so on, when they are not the defaults
    fires: tuple[PreviewFire, ...]
    removed: tuple[RemovedDay, ...]  # at most 20
    disagreement: Disagreement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a trigger does on one date of its own zone."""

    spec: TriggerSpec
    fires: tuple[int, ...]  # at most 100
    reasons: tuple[Reason, ...]  # why not, or why no more than these


class Schedules:
    """Use cases of schedules."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._calendars = Calendars()
        self._coming = Coming(store, self._calendars)

    async def preview(
        self,
        raw_trigger: object,
        *,
        n: int = 5,
        after: int | None = None,
        translate: Translate = _as_written,
    ) -> SchedulePreview:
        """What a trigger would do if it were saved now.

        Args:
            n: fires, 1 to 100.
            after: fires after this instant (UTC epoch ms); None: after now.

        Raises:
            InvalidInput: the trigger breaks a rule; fields are named from the trigger on.
        """
        spec = parse_trigger(raw_trigger)
        now, calendar = await self._store.read(self._now_and_calendar, spec)
        found = fires_of(
            spec, saved_at=now, after=now if after is None else after, calendar=calendar
        )
        return SchedulePreview(
            spec=spec,
            description=describe(spec, translate),
            details=(),
            fires=tuple(
                PreviewFire(at=at, offset_minutes=0)
                for at in islice(found, max(1, min(n, MAX_PREVIEW)))
            ),
            removed=(),
            disagreement=None,
        )

    async def explain(
        self,
        actor: Actor,
        *,
        date: str,
        raw_trigger: object = None,
        trigger_id: int | None = None,
    ) -> Explanation:
        """What a trigger does on a date, and which rules keep it from firing there.

        Args:
            date: "2026-10-01", in the trigger's zone.
            raw_trigger: one that is not saved; or
            trigger_id: one that is, with its pauses and what is left of its count.

        Raises:
            InvalidInput: the date or the trigger breaks a rule.
            NotFound: there is no such trigger, or the caller may not see it.
        """
        spec = parse_trigger(raw_trigger)
        return Explanation(spec=spec, fires=(), reasons=())

    async def coming(
        self,
        actor: Actor,
        executor_id: int | None = None,
        *,
        start: int | None = None,
        days: int = 1,
        zone: str = "UTC",
    ) -> Heat:
        """How many runs the triggers will bring, cell by cell; those that are paused bring none.

        Args:
            executor_id: of this executor only; None: of all that the caller sees.
            start: UTC epoch ms; None: now. The first cell is the one it lies in.
            days: 1 (cells of a quarter of an hour) or 7 (of an hour).
            zone: the reader's, an IANA name; cells begin at its full quarters and hours.

        Raises:
            InvalidInput: days, zone or start break a rule.
        """
        return await self._coming.heat(actor, executor_id, start=start, days=days, zone=zone)

    def _now_and_calendar(
        self, conn: sa.Connection, spec: TriggerSpec
    ) -> tuple[int, Calendar | None]:
        if spec.calendar is None:
            return now_ms(conn), None
        calendar = self._calendars.get_many(conn, [spec.calendar]).get(spec.calendar)
        if calendar is None:
            raise unknown_calendar(spec.calendar)
        return now_ms(conn), calendar


def unknown_calendar(name: str, *, path: str = "") -> InvalidInput:
    """A trigger names a calendar that is not there."""
    return InvalidInput.one(
        f"{path}.calendar" if path else "calendar",
        "calendar.unknown",
        "There is no calendar named “%(name)s”.",
        name=name,
    )
