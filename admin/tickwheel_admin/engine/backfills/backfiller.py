"""Writes the runs of backfills, a few at a time: as many as may be open, while slots are free.

Every admin does it. What is due is computed without a lock, then written by whoever is first
(`store.backfills.slices`); the others find that the row has changed, and leave it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.backfills.backfill import Backfill, BackfillState
from tickwheel_admin.domain.backfills.instants import next_instants
from tickwheel_admin.domain.backfills.slots import spare_slots
from tickwheel_admin.domain.calendars.calendar import Calendar
from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.jobs.job import Job, JobConfig
from tickwheel_admin.domain.routing.policy import admits
from tickwheel_admin.domain.runs.run import FINAL, RunState
from tickwheel_admin.domain.schedule.base import ScheduleError
from tickwheel_admin.domain.triggers.schedule import calendar_of
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.services.events.events import QUEUED, RUNS, Events
from tickwheel_admin.store.backfills.backfills import MAX_OPEN, open_backfills
from tickwheel_admin.store.backfills.slices import Slice, open_states, write_slice
from tickwheel_admin.store.calendars.calendars import CalendarCache
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.nodes import live_nodes
from tickwheel_admin.store.jobs.jobs import get_job
from tickwheel_admin.store.triggers.pauses import read_pauses

log = structlog.get_logger(__name__)

MAX_LOOKED_AT = 200  # instants of one transaction, most of which may have runs already
BUSY_SECONDS = 0.25  # between looks while runs of a backfill are open
SHORTEST_REST_SECONDS = 0.05  # however many runs end


class Backfiller(Loop):
    """One slice of each open backfill per pass, each a transaction of its own."""

    interval_seconds = 1.0

    def __init__(self, store: Store, ids: Ids, events: Events, *, calendars: CalendarCache) -> None:
        """`calendars` is a cache that may be shared."""
        super().__init__()
        self._store = store
        self._ids = ids
        self._events = events
        self._calendars = calendars
        self._is_busy = False  # runs of backfills are open
        self._after = 0  # the id behind which the next pass begins
        events.listen(RUNS, self._runs_changed)

    async def run_once(self) -> bool:
        due = await self._store.read(self._due)
        more = self._after > 0  # others stand behind these
        for each in due:
            more = await self._write(each) or more
        if self._is_busy:
            self.aim_at(asyncio.get_running_loop().time() + BUSY_SECONDS)
        return more

    def _runs_changed(self) -> None:
        """Look soon: one of ours may have ended."""
        since = asyncio.get_running_loop().time() - (self.last_pass_at or 0.0)
        if self._is_busy and since >= SHORTEST_REST_SECONDS:
            self.wake()

    async def _write(self, due: Slice) -> bool:
        """Write a slice; returns whether its backfill may go on at once."""
        wanted = min(due.room, len(due.instants))
        run_ids = await self._ids.take_many("run", wanted) if wanted else []
        written = await self._store.run(write_slice, due, run_ids=run_ids)
        if written is None:  # another admin was faster
            return False
        if written.runs:
            self._events.publish(QUEUED)
        if written.changed:
            self._events.publish(RUNS)
        if written.ended is not None:
            log.info(
                "backfill.ended",
                backfill_id=due.backfill.id,
                state=written.ended.value,
                reason=written.reason,
            )
        return written.runs < wanted and written.goes_on

    # --- what is due -----------------------------------------------------------------------------

    def _due(self, conn: sa.Connection) -> list[Slice]:
        """Off the event loop, and outside any lock."""
        standing = open_backfills(conn, after=self._after)
        # Those behind them come next, however long these wait for nodes.
        self._after = standing[-1].id if len(standing) == MAX_OPEN else 0
        self._is_busy = any(each.open for each in standing)
        places = _Places(conn)
        found = (self._slice(conn, each, places) for each in standing)
        return [each for each in found if each is not None]

    def _slice(self, conn: sa.Connection, backfill: Backfill, places: _Places) -> Slice | None:
        """What is to be written for a backfill; None: nothing."""
        states = open_states(conn, backfill.id) if backfill.open else {}
        ended = sum(n for state, n in states.items() if state is None or state in FINAL)
        still_open = backfill.open - ended
        nothing_new = Slice(backfill=backfill)
        if backfill.state is not BackfillState.RUNNING:
            over = backfill.state is BackfillState.CANCELLED and still_open == 0
            return nothing_new if ended or over else None
        waiting = states.get(RunState.QUEUED, 0)
        room = places.room(backfill, still_open=still_open, waiting=waiting)
        limit = MAX_LOOKED_AT if room else 1
        try:
            instants = next_instants(backfill, self._calendar(conn, backfill), limit=limit)
        except ScheduleError as error:
            return replace(nothing_new, error=str(error))
        if not instants:
            return replace(nothing_new, is_last=True) if ended or not still_open else None
        if not room:
            return nothing_new if ended else None
        return replace(nothing_new, instants=instants, is_last=len(instants) < limit, room=room)

    def _calendar(self, conn: sa.Connection, backfill: Backfill) -> Calendar | None:
        spec = backfill.spec
        return calendar_of(spec, self._calendars.get_many(conn, [spec.calendar]))


class _Places:
    """Where runs of backfills may go, as it is in one pass; each thing is read once."""

    def __init__(self, conn: sa.Connection) -> None:
        self._conn = conn
        self._jobs: dict[int, Job | None] = {}
        self._nodes: dict[int, list[Node] | None] = {}  # by executor; None: it is paused

    def room(self, backfill: Backfill, *, still_open: int, waiting: int) -> int:
        """How many runs may be written now."""
        if backfill.job_id not in self._jobs:
            self._jobs[backfill.job_id] = get_job(self._conn, backfill.job_id)
        job = self._jobs[backfill.job_id]
        if job is None:
            return 1  # whoever writes finds that there is nothing to run any more
        nodes = self._nodes_of(job.executor_id)
        left = backfill.most_open(job.config) - still_open
        if nodes is None or left <= 0:
            return 0
        if job.config.workflow is not None:
            return left  # it needs no node; its steps wait for slots behind everything else
        return max(0, min(left, _spare(nodes, job.config) - waiting))

    def _nodes_of(self, executor_id: int) -> list[Node] | None:
        if executor_id not in self._nodes:
            is_paused = read_pauses(self._conn, [executor_id]).of(executor_id) is not None
            nodes = live_nodes(self._conn, executor_id, now=now_ms(self._conn))
            self._nodes[executor_id] = None if is_paused else nodes
        return self._nodes[executor_id]


def _spare(nodes: list[Node], config: JobConfig) -> int:
    """Slots of the nodes that may run the job which are not kept for fires on time."""
    usable = [
        each
        for each in nodes
        if each.offers(config.handler)
        and not (each.cordoned or each.draining)
        and admits(config.routing, name=each.name, labels=each.labels)
    ]
    free = sum(max(0, each.slots - each.in_use) for each in usable)
    return spare_slots(free, sum(each.slots for each in usable))
