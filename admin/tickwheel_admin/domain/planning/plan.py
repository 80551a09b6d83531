"""From a trigger's next instant to the fires that must be written now (guarantee G9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.schedule.base import Schedule
from tickwheel_admin.domain.triggers.schedule import first_allowed
from tickwheel_admin.domain.triggers.spec import (
    MAX_CATCH_UP,
    MISFIRE_THRESHOLD_MS,
    MisfirePolicy,
    TriggerSpec,
)
from tickwheel_admin.domain.triggers.trigger import Trigger

MAX_FIRES = 1_000  # of one trigger in one pass; the next pass goes on from there
MAX_COUNTED = 1_000  # summarised fires are counted exactly up to here


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """Fires that are not made up for; one skipped run, at `last_at`, tells of them."""

    count: int  # at most MAX_COUNTED + 1, which means "more than"
    first_at: int
    last_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to write for one trigger, oldest first."""

    missed: Missed | None
    caught_up: tuple[int, ...]  # instants of missed fires that run now
    fires: tuple[int, ...]  # instants of fires on time
    next_fire_at: int | None  # None: the trigger is complete, unless it waits
    # The instant before the first of them by the schedule; None: none, or they follow runs.
    previous_at: int | None = None
    waits: bool = False  # a fixed delay: the end of its run says when it fires next

    @property
    def runs(self) -> int:
        """How many runs it brings; what is only told of is none."""
        return len(self.caught_up) + len(self.fires)


def plan(
    schedule: Schedule,
    *,
    next_fire_at: int,
    now: int,
    until: int,
    misfire: MisfirePolicy,
    threshold_ms: int = MISFIRE_THRESHOLD_MS,
    catch_up_limit: int = MAX_CATCH_UP,
    paused_at: int | None = None,
    left: int | None = None,
) -> Plan:
    """Everything from `next_fire_at` on that is due by `until`.

    Computed from the last planned instant, never from "now", so that it holds after any downtime.

    Args:
        threshold_ms: fires older than this are missed.
        catch_up_limit: with `fire_all`, the latest so many missed fires are made up for.
        paused_at: fires after this instant are passed over, as far as their time has come.
        left: runs that the trigger may still bring, at least 1; None: any number. Missed fires that
            are not made up for leave it as it is.
    """
    missed: Missed | None = None
    caught_up: tuple[int, ...] = ()
    cursor: int | None = next_fire_at
    threshold = now - threshold_ms
    if paused_at is not None:
        threshold, until = min(threshold, paused_at + 1), min(until, paused_at)
    if next_fire_at < threshold:
        latest = _last(schedule, before=threshold, first=next_fire_at)
        count = caught_up_of(misfire, catch_up_limit)
        count = count if left is None else min(count, left)
        caught_up = _latest(schedule, latest, first=next_fire_at, count=count)
        if not caught_up:
            missed = _missed(schedule, first=next_fire_at, last=latest)
        elif caught_up[0] > next_fire_at:
            last = _last(schedule, before=caught_up[0], first=next_fire_at)
            missed = _missed(schedule, first=next_fire_at, last=last)
        cursor = schedule.next_after(latest)
    fires: list[int] = []
    most = MAX_FIRES if left is None else min(MAX_FIRES, left - len(caught_up))
    while cursor is not None and cursor <= until and len(fires) < most:
        fires.append(cursor)
        cursor = schedule.next_after(cursor)
    if left is not None and len(caught_up) + len(fires) >= left:
        cursor = None
    if paused_at is not None and cursor is not None and paused_at < cursor <= now:
        cursor = schedule.next_after(now)
    written = (*caught_up, *fires)
    return Plan(
        missed=missed,
        caught_up=caught_up,
        fires=tuple(fires),
        next_fire_at=cursor,
        previous_at=schedule.last_before(written[0]) if written else None,
    )


def plan_fixed_delay(
    spec: TriggerSpec,
    *,
    next_fire_at: int,
    now: int,
    paused_at: int | None,
    fires: int = 0,
    calendar: Calendar | None = None,
) -> Plan:
    """The one fire of a fixed delay that can be due; the end of its run brings the next one.

    It never misses a fire: what could not be planned in time runs late.

    Args:
        fires: runs that the trigger brought before.
        calendar: what the spec names.
    """
    nothing = Plan(missed=None, caught_up=(), fires=(), next_fire_at=None)
    if paused_at is not None and next_fire_at > paused_at:
        later = next_after_end(spec, ended_at=now, fires=fires, calendar=calendar)
        return replace(nothing, next_fire_at=later)
    waits = spec.repeat_count is None or fires + 1 < spec.repeat_count
    if next_fire_at < now - MISFIRE_THRESHOLD_MS:
        return replace(nothing, caught_up=(next_fire_at,), waits=waits)
    return replace(nothing, fires=(next_fire_at,), waits=waits)


def next_after_end(
    spec: TriggerSpec, *, ended_at: int, fires: int, calendar: Calendar | None
) -> int | None:
    """When a fixed delay fires after its run ended; None: its count is used up, or its time over.

    Args:
        fires: runs that the trigger brought so far.
        calendar: what the spec names; the first instant that it leaves counts.
    """
    if runs_left(spec, fires) == 0:
        return None
    return first_allowed(spec, ended_at + spec.delay_ms, calendar=calendar)


def runs_left(spec: TriggerSpec, fires: int) -> int | None:
    """How many runs a trigger may still bring; None: any number."""
    return None if spec.repeat_count is None else max(spec.repeat_count - fires, 0)


def next_since(
    schedule: Schedule, trigger: Trigger, *, since: int, calendar: Calendar | None
) -> int | None:
    """Where planning goes on with a schedule that counts since an instant, in place of another.

    A next fire that was due by then stays due. Behind it, or from then on, the new schedule counts,
    and nothing up to the last fire happens again.

    Args:
        schedule: the new one; of a fixed delay only its bounds and calendar count.
    """
    at = trigger.next_fire_at
    if at is not None and at <= since:
        return at
    if runs_left(trigger.spec, trigger.fires) == 0:
        return None
    if trigger.spec.follows_runs:
        return None if at is None else first_allowed(trigger.spec, at, calendar=calendar)
    last = trigger.last_fire_at
    return schedule.next_after(since - 1 if last is None else max(last, since - 1))


def caught_up_of(misfire: MisfirePolicy, catch_up_limit: int) -> int:
    """How many missed fires are made up for: the latest ones; older ones are summarised."""
    match misfire:
        case MisfirePolicy.FIRE_ONCE:
            return 1
        case MisfirePolicy.SKIP:
            return 0
        case MisfirePolicy.FIRE_ALL:
            return catch_up_limit


def _last(schedule: Schedule, *, before: int, first: int) -> int:
    """The last instant before `before`, but no earlier than the stored one, which always counts."""
    return max(schedule.last_before(before) or first, first)


def _latest(schedule: Schedule, latest: int, *, first: int, count: int) -> tuple[int, ...]:
    instants: list[int] = []
    cursor: int | None = latest
    while cursor is not None and cursor >= first and len(instants) < count:
        instants.append(cursor)
        # The stored instant may be of an older schedule, which this one does not pass through.
        earlier = schedule.last_before(cursor)
        cursor = first if cursor > first and (earlier is None or earlier < first) else earlier
    return tuple(reversed(instants))


def _missed(schedule: Schedule, *, first: int, last: int) -> Missed:
    count = 1
    cursor = schedule.next_after(first)
    while cursor is not None and cursor <= last and count <= MAX_COUNTED:
        count += 1
        cursor = schedule.next_after(cursor)
    return Missed(count=count, first_at=first, last_at=last)
