"""Chooses when in their windows triggers fire: beside the least load that is forecast.

A trigger's turn is an instant in its row. Whoever finds it first moves that instant on and so takes
it; should that admin stop, it is another one's turn a little later. The forecast is made for one
executor at a time, by whoever the owner of the engine names: for the server, a process of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa
import structlog
from msgspec import structs

from tickwheel_admin.domain.errors import Unavailable
from tickwheel_admin.domain.forecast.situation import ForecastJob, ForecastSituation
from tickwheel_admin.domain.forecast.windows import PlacementRequest
from tickwheel_admin.domain.planning.windows import may_move
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.kinds.window import WindowSpec
from tickwheel_admin.domain.triggers.placement import WindowPlacement, clock_after
from tickwheel_admin.domain.triggers.schedule import calendar_of, parse
from tickwheel_admin.domain.triggers.trigger import Trigger, TriggerState
from tickwheel_admin.domain.users.user import Actor
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import TRIGGERS, Events
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.forecast.situation import (
    read_forecast_calendars,
    read_forecast_jobs,
    read_surroundings,
)
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.system.audit import NewAudit, write_audits
from tickwheel_admin.store.triggers.placing import (
    PlacedTrigger,
    ToPlace,
    claim_placing,
    lock_claimed,
    look_again,
    triggers_to_place,
    write_placed,
)

log = structlog.get_logger(__name__)

AGAIN_MS = 6 * 3_600_000  # so often each one is looked at
BLOCKED_MS = 3_600_000  # and so soon again when it may not be moved just now
CLAIMED_MS = 900_000  # so long others leave it to whoever took it
MAX_JOBS = 20_000  # of an executor: with more there is no forecast
CHUNK = 100  # jobs read at once
NOBODY = "Tickwheel"  # who placed it, in the audit

Place = Callable[[PlacementRequest], Awaitable[Mapping[int, WindowPlacement]]]


class _Outcome(NamedTuple):
    moved: list[int]
    blocked: list[int]


class WindowPlacer(Loop):
    """The triggers of one executor per pass. Every admin runs it; the first one does the work."""

    interval_seconds = 30.0

    def __init__(
        self,
        store: Store,
        ids: Ids,
        events: Events,
        *,
        place: Place | None,
        configs: JobConfigs,
        calendars: CalendarCache,
    ) -> None:
        """Choose with this; None: this admin leaves it to others."""
        super().__init__()
        self._store = store
        self._ids = ids
        self._events = events
        self._place = place
        self._configs = configs
        self._calendars = calendars

    async def run_once(self) -> bool:
        if self._place is None:
            return False
        found = await self._store.read(triggers_to_place)
        if not found:
            return False
        claimed = await self._store.run(claim_placing, found, for_ms=CLAIMED_MS)
        if claimed is None:
            return False
        situation = await self._situation(found[0].executor_id)
        chosen: Mapping[int, WindowPlacement] = {}
        if situation is not None:
            wanted = [each.trigger_id for each in found]
            try:
                chosen = await self._place(PlacementRequest(situation=situation, triggers=wanted))
            except Unavailable as error:
                # It is logged there; they are looked at again when nobody has them any more.
                log.warning("windows.not_placed", reason=error.code)
                return True
        audit_ids = await self._ids.take_many("audit", len(chosen)) if chosen else []
        outcome = await self._store.run(
            self._write, found, chosen, claimed=claimed, audit_ids=audit_ids
        )
        if outcome.moved:
            log.info("windows.placed", triggers=outcome.moved)
            self._events.publish(TRIGGERS)
        return True

    async def _situation(self, executor_id: int) -> ForecastSituation | None:
        """The executor's jobs, and what they run on; None: they are too many."""
        jobs: list[ForecastJob] = []
        while True:
            part = await self._store.read(
                lambda conn, after: read_forecast_jobs(
                    conn, [executor_id], after=after, limit=CHUNK, configs=self._configs
                ),
                jobs[-1].id if jobs else 0,
            )
            jobs += part
            if len(jobs) > MAX_JOBS:
                return None
            if len(part) < CHUNK:
                break
        around = await self._store.read(read_surroundings, [executor_id], self._configs)
        named = {trigger.spec.calendar for job in jobs for trigger in job.triggers}
        calendars = await self._store.read(
            read_forecast_calendars, {name for name in named if name is not None}
        )
        return ForecastSituation(
            now=around.now,
            # Deadlines are not asked for here, and so their calendars are not read.
            jobs=tuple(replace(job, config=replace(job.config, alarms=())) for job in jobs),
            nodes=around.nodes,
            calendars=calendars,
            pools=around.pools,
            paused=around.paused,
            open_runs=around.open_runs,
        )

    def _write(
        self,
        conn: sa.Connection,
        found: Sequence[ToPlace],
        chosen: Mapping[int, WindowPlacement],
        *,
        claimed: int,
        audit_ids: Sequence[int],
    ) -> _Outcome:
        stored = lock_claimed(conn, [each.trigger_id for each in found], place_at=claimed)
        now = now_ms(conn)
        wanted = [each.trigger for each in stored if each.trigger.id in chosen]
        followed = self._calendars.get_many(
            conn, {each.spec.calendar for each in wanted if each.spec.calendar is not None}
        )
        placed, blocked = [], []
        for each in stored:
            trigger = each.trigger
            if trigger.id not in chosen or not isinstance(trigger.spec, WindowSpec):
                continue
            try:
                calendar = calendar_of(trigger.spec, followed)
                before = parse(trigger.spec, saved_at=each.saved_at, calendar=calendar)
                placement = structs.replace(
                    chosen[trigger.id],
                    former_at=before.last_before(now + 1),
                    former_offset=(trigger.spec.start - trigger.spec.begin) // 60,
                )
                new = structs.replace(trigger.spec, placement=placement)
                schedule = parse(new, saved_at=each.saved_at, calendar=calendar)
            except ScheduleError:
                continue  # the planner tells of it
            is_current = calendar is None or trigger.calendar_version == calendar.version
            if is_current and _may_move(trigger, new, now=now):
                next_at = None
                if trigger.next_fire_at is not None:
                    next_at = schedule.next_after(max(now, trigger.last_fire_at or 0))
                placed.append(PlacedTrigger(trigger, new, next_at))
            else:
                blocked.append(trigger.id)
        write_placed(conn, placed, now=now)
        rest = [each.trigger.id for each in stored if each.trigger.id not in blocked]
        look_again(conn, rest, at=now + AGAIN_MS)
        look_again(conn, blocked, at=now + BLOCKED_MS)
        audits = [_audit(each, id=one) for each, one in zip(placed, audit_ids, strict=False)]
        write_audits(conn, Actor(user_id=0, name=NOBODY, grants={}), audits)
        return _Outcome([each.before.id for each in placed], blocked)


def _may_move(trigger: Trigger, new: WindowSpec, *, now: int) -> bool:
    """Nothing is due, nothing is planned ahead, and no night has two fires or none."""
    old = trigger.spec
    assert isinstance(old, WindowSpec)  # noqa: S101 - as its caller has asked
    if trigger.state is not TriggerState.ACTIVE or (trigger.last_fire_at or 0) > now:
        return False
    is_due = trigger.next_fire_at is not None and trigger.next_fire_at <= now
    return not is_due and may_move(old, new, now=now)


def _audit(placed: PlacedTrigger, *, id: int) -> NewAudit:  # noqa: A002 - the name of the column
    trigger, old, new = placed.before, placed.before.spec, placed.spec
    assert isinstance(old, WindowSpec)  # noqa: S101
    assert isinstance(new, WindowSpec)  # noqa: S101
    found = new.placement
    assert found is not None  # noqa: S101
    detail: dict[str, object] = {
        "trigger": trigger.id,
        "from": clock_after(old.start, 0),
        "to": clock_after(new.begin, found.offset),
        "by": found.by.value,
        "runs": found.runs,
        "length_ms": found.length_ms,
    }
    if found.slots:
        detail |= {
            "in_use": found.in_use,
            "in_use_at_latest": found.in_use_at_latest,
            "slots": found.slots,
        }
    return NewAudit(
        id=id,
        action="trigger.placed",
        executor_id=trigger.executor_id,
        object_id=trigger.job_id,
        detail=detail,
    )
