"""What a trigger did in a past minute: its instants as it stood then, and what kept them back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.calendars.compiled import compiled
from tickwheel_admin.domain.fields import instant_to_iso
from tickwheel_admin.domain.schedule.base import Schedule, ScheduleError
from tickwheel_admin.domain.schedule.wall_clock import DAY_SECONDS, date_of_day
from tickwheel_admin.domain.schedule.zones import zone_of
from tickwheel_admin.domain.self_audit.past import PausePeriod, TriggerPeriod
from tickwheel_admin.domain.triggers.explain import explain
from tickwheel_admin.domain.triggers.reason import Reason
from tickwheel_admin.domain.triggers.schedule import parse
from tickwheel_admin.domain.triggers.trigger import TriggerState

MINUTE_MS = 60_000
MAX_FIRES = 60  # of a trigger in a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerMinute:
    """A trigger as it stood in a minute."""

    period: TriggerPeriod
    fires: tuple[int, ...]  # its instants in the minute, whether they were kept back or not
    next_at: int | None  # the first one behind them; None: none, or nobody knows
    # What kept them back, or why there are none; empty: nothing, they were to bring runs.
    reasons: tuple[Reason, ...] = field(default=())


def trigger_minute(
    period: TriggerPeriod,
    *,
    calendar: Calendar | None,
    pauses: Iterable[PausePeriod],
    from_at: int,
) -> TriggerMinute:
    """What a trigger did in the minute that begins at an instant.

    Args:
        calendar: what its calendar said then; None: it has none, or there was none of that name.
        pauses: of its executor, and of everything.
    """
    spec = period.spec
    to_at = from_at + MINUTE_MS
    if spec.follows_runs:
        told = Reason(
            code="follows_run",
            template="It fires so long after its run before has ended; the ledger tells when.",
        )
        return TriggerMinute(period=period, fires=(), next_at=None, reasons=(told,))
    try:
        schedule = parse(spec, saved_at=period.saved_at, calendar=calendar)
        fires, next_at = _instants(schedule, max(from_at, period.since_at + 1), to_at)
        fires = tuple(at for at in fires if at <= period.ends_at)
        reasons = (
            _kept_back(period, pauses, fires)
            if fires
            else _no_instant(period, calendar, schedule, from_at, to_at)
        )
    except ScheduleError as error:
        reason = Reason(code="error", template=error.template, params=error.params)
        return TriggerMinute(period=period, fires=(), next_at=None, reasons=(reason,))
    return TriggerMinute(period=period, fires=fires, next_at=next_at, reasons=tuple(reasons))


def next_fire(period: TriggerPeriod, calendar: Calendar | None, *, at: int) -> int | None:
    """The instant that a trigger was to fire at next; None: at none, or a run had to end first."""
    if period.is_idle or period.spec.follows_runs or period.state is TriggerState.ERROR:
        return None
    try:
        found = parse(period.spec, saved_at=period.saved_at, calendar=calendar).next_after(at)
    except ScheduleError:
        return None
    last_at = period.last_fire_at or 0
    over = period.state is TriggerState.COMPLETE and (found is None or found > last_at)
    return None if over else found


def _instants(schedule: Schedule, from_at: int, to_at: int) -> tuple[tuple[int, ...], int | None]:
    """Those before `to_at`, and the one behind them."""
    fires: list[int] = []
    at = schedule.next_after(from_at - 1)
    while at is not None and at < to_at and len(fires) < MAX_FIRES:
        fires.append(at)
        at = schedule.next_after(at)
    return tuple(fires), at


def _kept_back(
    period: TriggerPeriod, pauses: Iterable[PausePeriod], fires: tuple[int, ...]
) -> Iterator[Reason]:
    """What kept all of its instants back."""
    first, last = fires[0], fires[-1]
    if period.paused:
        yield Reason(code="trigger_paused", template="The trigger was paused.")
    elif period.is_idle:
        yield Reason(code="job_paused", template="The job was paused.")
    for pause in pauses:
        if pause.paused_at < first and (pause.resumed_at is None or last <= pause.resumed_at):
            everything = pause.executor_id == 0
            yield Reason(
                code="everything_paused" if everything else "executor_paused",
                template="Everything was paused, since %(since)s."
                if everything
                else "Its executor was paused, since %(since)s.",
                params={"since": instant_to_iso(pause.paused_at)},
            )
    last_at = period.last_fire_at or 0
    if period.state is TriggerState.COMPLETE and first > last_at:
        yield Reason(code="complete", template="It had fired for the last time.")
    elif period.state is TriggerState.ERROR and first > last_at:
        yield Reason(code="error", template="Its schedule could not be computed.")
    elif period.planned_to is not None and first > period.planned_to:
        yield Reason(
            code="edited", template="It was edited before the instant was planned, and began anew."
        )


def _no_instant(
    period: TriggerPeriod,
    calendar: Calendar | None,
    schedule: Schedule,
    from_at: int,
    to_at: int,
) -> Iterator[Reason]:
    """Why it has no instant in the minute."""
    spec = period.spec
    plain, _ = _instants(parse(spec.unbounded(), saved_at=period.saved_at), from_at, to_at)
    zone = zone_of(spec.timezone)
    if not plain:
        wall = zone.to_local(from_at // 1_000)[0]
        date = date_of_day(wall // DAY_SECONDS).isoformat()
        found = explain(spec, date=date, saved_at=period.saved_at, calendar=calendar)
        yield from found.reasons
        if not found.reasons:
            yield Reason(code="not_then", template="It has no instant in this minute.")
        return
    if plain[0] <= period.since_at:
        yield Reason(code="not_there", template="It was made or edited after this instant.")
    elif spec.start_at is not None and plain[-1] < spec.start_at:
        yield Reason(
            code="before_start",
            template="It does not fire before %(start)s, where it starts.",
            params={"start": instant_to_iso(spec.start_at)},
        )
    elif spec.end_at is not None and plain[0] > spec.end_at:
        yield Reason(
            code="after_end",
            template="It does not fire after %(end)s, where it ends.",
            params={"end": instant_to_iso(spec.end_at)},
        )
    elif calendar is not None:
        refused = map(
            compiled(calendar).who_refuses, (zone.to_local(at // 1_000)[0] for at in plain)
        )
        name = next(filter(None, refused), calendar.name)
        yield Reason(
            code="calendar",
            template="The calendar “%(calendar)s” took this instant away.",
            params={"calendar": name},
        )
    else:
        yield Reason(code="not_then", template="It has no instant in this minute.")
