"""What schedules mean: previews and explanations of triggers, and how full the next days are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.fields import MAX_INSTANT
from tickwheel_admin.domain.input.trigger import parse_trigger
from tickwheel_admin.domain.planning.plan import runs_left
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.describe_more import describe_more
from tickwheel_admin.domain.triggers.explain import Explanation as Explanation
from tickwheel_admin.domain.triggers.explain import explain
from tickwheel_admin.domain.triggers.preview import Mark as Mark
from tickwheel_admin.domain.triggers.preview import PreviewFire as PreviewFire
from tickwheel_admin.domain.triggers.preview import RemovedDay as RemovedDay
from tickwheel_admin.domain.triggers.preview import preview
from tickwheel_admin.domain.triggers.reason import Reason as Reason
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.second_opinion import Disagreement as Disagreement
from tickwheel_admin.domain.triggers.second_opinion import second_opinion
from tickwheel_admin.domain.triggers.spec import TriggerSpec
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.services.triggers.upcoming import UpcomingFires
from tickwheel_admin.services.triggers.upcoming_count import Heat as Heat
from tickwheel_admin.services.triggers.upcoming_count import HeatMinute as HeatMinute
from tickwheel_admin.services.triggers.upcoming_count import HeatRow as HeatRow
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.triggers.pauses import Pauses, read_pauses
from tickwheel_admin.store.triggers.triggers import TriggerOfJob, get_trigger

MAX_PREVIEW = 100
MAX_COUNTED = 10_000  # fires that are counted to see whether a repeat count lasts until a date

Translate = Callable[[str], str]


def _as_written(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A trigger in words."""

    spec: TriggerSpec
    text: str  # when it fires
    details: tuple[str, ...]  # bounds, calendar, jitter and so on, where they are not the defaults


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePreview:
    """What a trigger would do if it were saved now."""

    spec: TriggerSpec
    description: str  # in the words that `translate` gives
    details: tuple[str, ...]  # bounds, calendar, jitter and so on, where they are not the defaults
    fires: tuple[PreviewFire, ...]
    removed: tuple[RemovedDay, ...]  # at most 20
    disagreement: Disagreement | None  # where croniter computes other fires


class Triggers:
    """Use cases of schedules."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._calendars = CalendarCache()
        self._upcoming = UpcomingFires(store, self._calendars)

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
            InvalidInput: the trigger breaks a rule, or its calendar is not there; fields are named
                from the trigger on.
        """
        spec = parse_trigger(raw_trigger)
        now, calendar = await self._store.read(self._now_and_calendar, spec)
        try:
            found = await asyncio.to_thread(
                preview,
                spec,
                after=now if after is None else after,
                n=max(1, min(n, MAX_PREVIEW)),
                saved_at=now,
                calendar=calendar,
            )
            disagreement = await asyncio.to_thread(second_opinion, spec, after=now)
        except ScheduleError as error:
            raise _refused(error) from None
        return SchedulePreview(
            spec=spec,
            description=spec.describe(translate),
            details=tuple(describe_more(spec, translate)),
            fires=tuple(fire for fire in found.fires if fire.at <= MAX_INSTANT),
            removed=found.removed,
            disagreement=disagreement,
        )

    def describe(self, raw_trigger: object, *, translate: Translate = _as_written) -> Description:
        """A trigger in words.

        Raises:
            InvalidInput: the trigger breaks a rule; fields are named from the trigger on.
        """
        spec = parse_trigger(raw_trigger)
        details = tuple(describe_more(spec, translate))
        return Description(spec=spec, text=spec.describe(translate), details=details)

    async def explain(self, raw_trigger: object, *, date: str) -> Explanation:
        """What a trigger would do on a date if it were saved now, and which rules stand against it.

        Args:
            date: "2026-10-01", in the trigger's zone.

        Raises:
            InvalidInput: the date or the trigger breaks a rule, or its calendar is not there.
        """
        spec = parse_trigger(raw_trigger)
        now, calendar = await self._store.read(self._now_and_calendar, spec)
        return await _explained(spec, date=date, saved_at=now, calendar=calendar)

    async def explain_trigger(self, actor: Actor, trigger_id: int, *, date: str) -> Explanation:
        """The same for a trigger that is saved, with its pauses and what is left of its count.

        Raises:
            NotFound: there is no such trigger, or the caller may not see it.
            InvalidInput: the date breaks a rule, or the trigger's calendar is gone.
        """

        def read(
            conn: sa.Connection,
        ) -> tuple[TriggerOfJob, Pauses, int, Calendar | None]:
            found = get_trigger(conn, trigger_id)
            if found is None:
                raise not_found()
            executor_id = found.trigger.executor_id
            actor.require(Permission.VIEW, executor_id)
            now, calendar = self._now_and_calendar(conn, found.trigger.spec)
            return found, read_pauses(conn, [executor_id]), now, calendar

        found, pauses, now, calendar = await self._store.read(read)
        spec, saved_at = found.trigger.spec, found.saved_at
        told = await _explained(spec, date=date, saved_at=saved_at, calendar=calendar)
        if not told.fires or told.fires[-1] <= now:
            return told
        against = tuple(_against(found, pauses))
        if not against and spec.repeat_count is not None:
            left = await asyncio.to_thread(
                _left_at, found, told.fires[0], now=now, calendar=calendar
            )
            told = replace(told, fires=told.fires[:left])
            against = () if left else (_used_up(spec),)
        return replace(told, fires=() if against else told.fires, reasons=told.reasons + against)

    async def upcoming(
        self,
        actor: Actor,
        executor_id: int | None = None,
        *,
        start: int | None = None,
        days: int = 1,
        zone: str = "UTC",
        frequent: bool = True,
    ) -> Heat:
        """How many runs the triggers will bring, cell by cell; those that are paused bring none.

        Args:
            executor_id: of this executor only; None: of all that the caller sees.
            start: UTC epoch ms; None: now. The first cell is the one it lies in.
            days: 1 (cells of a quarter of an hour) or 7 (of an hour).
            zone: the reader's, an IANA name; cells begin at its full quarters and hours.
            frequent: count jobs as well that fire more often than every two minutes.

        Raises:
            InvalidInput: days, zone or start break a rule.
        """
        return await self._upcoming.heat(
            actor, executor_id, start=start, days=days, zone=zone, frequent=frequent
        )

    def _now_and_calendar(
        self, conn: sa.Connection, spec: TriggerSpec
    ) -> tuple[int, Calendar | None]:
        if spec.calendar is None:
            return now_ms(conn), None
        calendar = self._calendars.get_many(conn, [spec.calendar]).get(spec.calendar)
        if calendar is None:
            raise InvalidInput.one(
                "calendar",
                "calendar.unknown",
                "There is no calendar named “%(name)s”.",
                name=spec.calendar,
            )
        return now_ms(conn), calendar


async def _explained(
    spec: TriggerSpec, *, date: str, saved_at: int, calendar: Calendar | None
) -> Explanation:
    try:
        return await asyncio.to_thread(
            explain, spec, date=date, saved_at=saved_at, calendar=calendar
        )
    except ScheduleError as error:
        raise _refused(error) from None


def _against(found: TriggerOfJob, pauses: Pauses) -> list[Reason]:
    """What keeps a stored trigger from firing whatever its schedule says."""
    trigger = found.trigger
    told = []
    if trigger.state is TriggerState.ERROR:
        reason = trigger.reason or ""
        told.append(
            Reason(
                code="error",
                template="Its next fire cannot be computed: %(reason)s",
                params={"reason": reason},
            )
        )
    if runs_left(trigger.spec, trigger.fires) == 0:
        told.append(_used_up(trigger.spec))
    if trigger.paused:
        told.append(Reason(code="trigger_paused", template="This trigger is paused."))
    if found.job_paused:
        told.append(Reason(code="job_paused", template="Its job is paused."))
    if trigger.executor_id in pauses.executors:
        told.append(Reason(code="executor_paused", template="Its executor is paused."))
    if pauses.everything is not None:
        told.append(Reason(code="all_paused", template="Everything is paused."))
    return told


def _used_up(spec: TriggerSpec) -> Reason:
    return Reason(
        code="repeat_count",
        template="It fires %(count)d times in all, and those are over before.",
        params={"count": spec.repeat_count or 0},
    )


def _left_at(found: TriggerOfJob, at: int, *, now: int, calendar: Calendar | None) -> int:
    """How many runs of the repeat count are left when the fires before `at` have happened."""
    trigger = found.trigger
    left = runs_left(trigger.spec, trigger.fires) or 0
    schedule = parse(trigger.spec, saved_at=found.saved_at, calendar=calendar)
    fire: int | None = trigger.next_fire_at or schedule.next_after(now)
    for _ in range(min(left, MAX_COUNTED)):
        if fire is None or fire >= at:
            break
        left -= 1
        fire = schedule.next_after(fire)
    return left


def _refused(error: ScheduleError) -> InvalidInput:
    return InvalidInput.one(error.field, "schedule.invalid", error.template, **error.params)
