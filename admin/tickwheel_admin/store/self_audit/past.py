"""What was the case during an hour, as far as it is kept: triggers, pauses, calendars, purges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from tickwheel_admin.domain.calendars.calendar_json import calendar_from_json
from tickwheel_admin.domain.self_audit.past import (
    FOREVER,
    CalendarPeriod,
    CalendarsPast,
    Past,
    PausePeriod,
    PurgedRuns,
    TriggerPeriod,
)
from tickwheel_admin.domain.triggers.trigger import TriggerState
from tickwheel_admin.domain.triggers.trigger_json import spec_from_json
from tickwheel_admin.store.database.index_hints import reading
from tickwheel_admin.store.database.tables import (
    ALIVE,
    calendar,
    calendar_period,
    executor,
    job,
    pause_period,
    run_purge,
    setting,
    trigger,
    trigger_period,
)
from tickwheel_admin.store.self_audit.periods import retained_from

NEAR_MS = 7_200_000  # what ended so long before a time may still matter to it
_ALL_PAUSED = "paused_at"  # the setting of store.triggers.pauses
_NEVER = sa.literal(None, sa.BigInteger())
_calendar = lru_cache(maxsize=128)(calendar_from_json)  # each batch of an audit reads them

_OPEN = (
    trigger.c.id.label("trigger_id"),
    trigger.c.version,
    trigger.c.job_id,
    trigger.c.executor_id,
    trigger.c.spec,
    trigger.c.created_at.label("saved_at"),
    trigger.c.since_at,
    _NEVER.label("until_at"),
    _NEVER.label("planned_to"),
    trigger.c.state,
    trigger.c.paused,
    trigger.c.next_fire_at,
    trigger.c.last_fire_at,
    job.c.paused.label("job_paused"),
)


def trigger_ids(conn: sa.Connection, after: int, *, limit: int) -> Sequence[int]:
    """Ids of the triggers that there are, from behind `after`."""
    page = sa.select(trigger.c.id).where(trigger.c.id > after).order_by(trigger.c.id).limit(limit)
    return conn.execute(page).scalars().all()


def ended_ids(conn: sa.Connection, *, since: int) -> set[int]:
    """Ids of triggers that were edited or deleted since an instant."""
    ended = sa.select(trigger_period.c.trigger_id).where(
        trigger_period.c.until_at >= since - NEAR_MS
    )
    return set(conn.execute(ended).scalars())


def read_periods(
    conn: sa.Connection, ids: Collection[int], *, begin: int
) -> dict[int, list[TriggerPeriod]]:
    """By trigger, its periods since shortly before `begin`, in order of their versions."""
    # First those that last: one that ends meanwhile is read twice, and not missed.
    found: dict[tuple[int, int], TriggerPeriod] = {}
    lasting = (
        sa.select(*_OPEN)
        .select_from(trigger.outerjoin(job, job.c.id == trigger.c.job_id))
        .where(trigger.c.id.in_(sorted(ids)))
    )
    ended = sa.select(trigger_period).where(
        trigger_period.c.trigger_id.in_(sorted(ids)), trigger_period.c.until_at >= begin - NEAR_MS
    )
    for statement in (lasting, reading(ended, trigger_period, "PRIMARY")):
        for row in conn.execute(statement):
            found[row.trigger_id, row.version] = _period(row)
    periods: defaultdict[int, list[TriggerPeriod]] = defaultdict(list)
    for (trigger_id, _), period in sorted(found.items()):
        periods[trigger_id].append(period)
    return periods


def read_past(conn: sa.Connection, *, begin: int, end: int) -> Past:
    """What was the case for all triggers from shortly before `begin` on."""
    pauses = [
        PausePeriod(executor_id=row.executor_id, paused_at=row.paused_at, resumed_at=row.resumed_at)
        for row in conn.execute(
            sa.select(pause_period).where(pause_period.c.resumed_at >= begin - NEAR_MS)
        )
    ]
    everything = conn.execute(
        sa.select(setting.c.value).where(setting.c.name == _ALL_PAUSED)
    ).scalar_one_or_none()
    if everything is not None:
        pauses.append(PausePeriod(executor_id=0, paused_at=int(everything), resumed_at=None))
    pauses += [
        PausePeriod(executor_id=row.id, paused_at=row.paused_at, resumed_at=None)
        for row in conn.execute(
            sa.select(executor.c.id, executor.c.paused_at).where(executor.c.paused_at.is_not(None))
        )
    ]
    purged = [
        PurgedRuns(job_id=row.job_id, from_at=row.from_at, to_at=row.to_at)
        for row in conn.execute(
            sa.select(run_purge).where(run_purge.c.to_at >= begin, run_purge.c.from_at < end)
        )
    ]
    return Past(
        pauses=pauses,
        calendars=_calendars(conn, begin=begin),
        purged=purged,
        kept_from=retained_from(conn),
    )


def _calendars(conn: sa.Connection, *, begin: int) -> CalendarsPast:
    periods: defaultdict[str, list[CalendarPeriod]] = defaultdict(list)
    # First what they say now: one that changes meanwhile is read twice, and not missed.
    current = conn.execute(
        sa.select(calendar.c.name, calendar.c.spec).where(calendar.c.deleted_at == ALIVE)
    ).all()
    past = sa.select(calendar_period).where(calendar_period.c.until_at >= begin - NEAR_MS)
    for row in conn.execute(past.order_by(calendar_period.c.until_at)):
        periods[row.name].append(CalendarPeriod(until_at=row.until_at, spec=_calendar(row.spec)))
    for row in current:
        periods[row.name].append(CalendarPeriod(until_at=FOREVER, spec=_calendar(row.spec)))
    return CalendarsPast(periods)


def _period(row: Any) -> TriggerPeriod:
    return TriggerPeriod(
        trigger_id=row.trigger_id,
        version=row.version,
        job_id=row.job_id,
        executor_id=row.executor_id,
        spec=spec_from_json(row.spec),
        saved_at=row.saved_at,
        since_at=row.since_at,
        until_at=row.until_at,
        planned_to=row.planned_to,
        state=TriggerState(row.state),
        paused=bool(row.paused),
        next_fire_at=row.next_fire_at,
        last_fire_at=row.last_fire_at,
        job_paused=row.until_at is None and bool(row.job_paused),
    )
