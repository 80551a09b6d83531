"""From a trigger's next instant to the fires that must be written now (guarantee G9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tickwheel_admin.domain.schedule import Schedule
from tickwheel_admin.domain.trigger import (
    MAX_CATCH_UP,
    MISFIRE_THRESHOLD_MS,
    MisfirePolicy,
    TriggerSpec,
)

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
    next_fire_at: int | None  # None: the trigger is complete


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
) -> Plan:
    """Everything from `next_fire_at` on that is due by `until`.

    Computed from the last planned instant, never from "now", so that it holds after any downtime.

    Args:
        threshold_ms: fires older than this are missed.
        catch_up_limit: with `fire_all`, the latest so many missed fires are made up for.
        paused_at: fires after this instant are passed over, as far as their time has come.
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
        caught_up = _latest(schedule, latest, first=next_fire_at, count=count)
        if not caught_up:
            missed = _missed(schedule, first=next_fire_at, last=latest)
        elif caught_up[0] > next_fire_at:
            last = _last(schedule, before=caught_up[0], first=next_fire_at)
            missed = _missed(schedule, first=next_fire_at, last=last)
        cursor = schedule.next_after(latest)
    fires: list[int] = []
    while cursor is not None and cursor <= until and len(fires) < MAX_FIRES:
        fires.append(cursor)
        cursor = schedule.next_after(cursor)
    if paused_at is not None and cursor is not None and paused_at < cursor <= now:
        cursor = schedule.next_after(now)
    return Plan(missed=missed, caught_up=caught_up, fires=tuple(fires), next_fire_at=cursor)


def plan_fixed_delay(
    spec: TriggerSpec, *, next_fire_at: int, now: int, paused_at: int | None
) -> Plan:
    """The one fire of a fixed delay that can be due; the end of its run brings the next one.

    It never misses a fire: what could not be planned in time runs late.
    """
    nothing = Plan(missed=None, caught_up=(), fires=(), next_fire_at=now + (spec.every_ms or 0))
    if paused_at is not None and next_fire_at > paused_at:
        return nothing
    if next_fire_at < now - MISFIRE_THRESHOLD_MS:
        return replace(nothing, caught_up=(next_fire_at,), next_fire_at=None)
    return replace(nothing, fires=(next_fire_at,), next_fire_at=None)


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
