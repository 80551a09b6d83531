"""No run is stuck for ever (G3): deadlines, ended leases, and what has stalled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain.executors.node import Node
from tickwheel_admin.domain.runs.run import Move
from tickwheel_admin.engine.batching import write_or_bisect
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.membership.leases import MAX_STEP_SECONDS, Leases, clock_is_steady
from tickwheel_admin.engine.ports import NodeLinks, RunTracer
from tickwheel_admin.engine.sweeper.deadlines import (
    RUNS_PER_BATCH,
    SweepResult,
    expire_queued,
    sweep_fires,
    sweep_live,
)
from tickwheel_admin.engine.sweeper.lost_runs import LostRunsResult, move_lost_runs
from tickwheel_admin.engine.sweeper.stalled import cancel_orphans, repair_stalled
from tickwheel_admin.engine.sweeper.workflows import give_up_workflow, sweep_workflows
from tickwheel_admin.services.events.events import NODES, QUEUED, RUNS, TRIGGERS, Events
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.database.ids import Ids
from tickwheel_admin.store.executors.admins import remove_dead_admins
from tickwheel_admin.store.executors.node_leases import expire_nodes
from tickwheel_admin.store.executors.node_slots import miscounted_nodes, recount_slots
from tickwheel_admin.store.executors.nodes import ended_nodes_with_runs
from tickwheel_admin.store.jobs.configs import JobConfigs
from tickwheel_admin.store.runs.deadlines import (
    PastDeadline,
    queued_past_deadline,
    runs_past_deadline,
)
from tickwheel_admin.store.runs.due_check import DueCheck, check_due
from tickwheel_admin.store.runs.follow_ups import FollowUpResult
from tickwheel_admin.store.runs.pools.recount import miscounted_pools, recount_pool
from tickwheel_admin.store.runs.workflows.step_runs import workflows_among

log = structlog.get_logger(__name__)

T = TypeVar("T")

RECOUNT_SECONDS = 30.0
REPAIR_SECONDS = 5.0
SHORTEST_REST_SECONDS = 0.1  # before an ending lease is read again that another admin renews


class Sweeper(Loop):
    """Runs past their deadline, nodes and admins whose lease is over, and what has stalled."""

    interval_seconds = 1.0

    def __init__(
        self,
        store: Store,
        ids: Ids,
        links: NodeLinks,
        leases: Leases,
        events: Events,
        *,
        configs: JobConfigs,
        tracer: RunTracer | None = None,
    ) -> None:
        super().__init__()
        self._tracer = tracer
        self._store = store
        self._ids = ids
        self._links = links
        self._leases = leases
        self._events = events
        self._configs = configs
        self._recounted_at = 0.0
        self._repaired_at = 0.0
        self._repaired_to = 0  # trigger id up to which stalled ones were searched for
        # By how many seconds the database's clock was ahead of ours at the last check.
        self._clock_ahead: tuple[float, float] | None = None
        self._none_over_at: int | None = (
            None  # database time of the last check, if no lease was over
        )

    async def run_once(self) -> bool:
        asked_at = asyncio.get_running_loop().time()
        seen = await self._store.read(check_due)
        more = seen.runs_are_late and await self._sweep_deadlines()
        if self._clock_was_set(seen, asked_at):
            self._leases.distrust_clock("leases.of_another_clock")
        ended = self._leases.may_expire() and await self._expire(seen)
        if ended or seen.ended_nodes_have_runs:
            more = await self._move_lost_runs() or more
        await self._repair()
        await self._recount()
        return more

    async def _sweep_deadlines(self) -> bool:
        live, is_late = await self._store.read(_past_deadline)
        connected = frozenset(self._links.connected())
        may_expire = self._leases.may_expire()
        expected = self._leases.expected_database_ms()
        moved = 0
        if is_late:
            swept = await self._with_ids(
                lambda ids: self._store.run(expire_queued, self._configs, ids)
            )
            moved += self._send(swept)
        fires = [past.run_id for past in live if past.node_id is None]
        workflows = await self._store.read(workflows_among, fires) if fires else set()
        goes_down = False  # to nodes, and to workflows within these
        if workflows:
            goes_down = await self._sweep_workflows(workflows)
            fires = [run_id for run_id in fires if run_id not in workflows]
        if fires:
            swept = await self._with_ids(
                lambda ids: self._store.run(sweep_fires, fires, self._configs, ids)
            )
            moved += self._send(swept)
        # A node's own admins ask it; a timeout can be ended by anyone who trusts its own view.
        runs = [
            past.run_id
            for past in live
            if past.node_id is not None and (may_expire or past.node_id in connected)
        ]
        if runs:
            swept = await self._with_ids(
                lambda ids: self._store.run(
                    _sweep_live, runs, self._configs, connected, may_expire, expected, ids
                )
            )
            moved += self._send(swept)
        return goes_down or (len(live) == RUNS_PER_BATCH and moved > 0)

    async def _sweep_workflows(self, workflows: Collection[int]) -> bool:
        """Whether anything has moved; a run that cannot be swept does not stop the others."""
        moved = 0

        async def sweep(ids: Sequence[int]) -> None:
            nonlocal moved
            swept = await self._with_ids(
                lambda run_ids: self._store.run(sweep_workflows, ids, self._configs, run_ids)
            )
            moved += self._send(swept)

        async def give_up(run_id: int, reason: str) -> None:
            log.exception("workflow.not_swept", run_id=run_id, reason=reason)
            if await self._store.run(give_up_workflow, run_id, self._configs):
                self._events.publish(RUNS)

        await write_or_bisect(sorted(workflows), sweep, give_up)
        return moved > 0

    def _send(self, swept: SweepResult) -> int:
        for node_id, messages in swept.messages.items():
            self._links.send(node_id, messages)
        if swept.timed_out:
            log.info("sweeper.timed_out", runs=swept.timed_out)
        if swept.moved:
            self._announce(swept.followed)
            self._trace(swept.ended, at=swept.now)
        return swept.moved

    def _clock_was_set(self, seen: DueCheck, asked_at: float) -> bool:
        """Whether the database's clock was set, so that leases may have ended by mistake.

        Either it made a step between two checks; or a lease ended before the last check, which
        found none over: then the clock was set forth and back between them.
        """
        now = asyncio.get_running_loop().time()
        ahead = (seen.now / 1000 - now, seen.now / 1000 - asked_at)  # at least, at most
        before, self._clock_ahead = self._clock_ahead or ahead, ahead
        step = max(ahead[0] - before[1], before[0] - ahead[1])
        ends = [at for at in (seen.first_node_ends_at, seen.first_admin_ends_at) if at is not None]
        first = min(ends, default=seen.now + 1)
        last_look, self._none_over_at = self._none_over_at, seen.now if first > seen.now else None
        return step > MAX_STEP_SECONDS or (
            last_look is not None and first < last_look - MAX_STEP_SECONDS * 1000
        )

    async def _expire(self, seen: DueCheck) -> bool:
        """End nodes and admins whose lease is over; returns whether nodes were among them."""
        expected = self._leases.expected_database_ms()
        nodes: list[int] = []
        if seen.nodes_are_over:
            nodes = await self._store.run(_ended, expire_nodes, expected)
        for node_id in nodes:
            log.warning("node.expired", node_id=node_id)
            self._events.publish(NODES)
        if seen.admins_are_over:
            for admin_id in await self._store.run(_ended, remove_dead_admins, expected):
                log.warning("admin.expired", admin_id=admin_id)
                self._events.publish(NODES)  # every page names the admins
        # Be there when the next lease ends: until then no other node takes over its runs.
        if seen.first_node_ends_at is not None:
            seconds = max((seen.first_node_ends_at - seen.now) / 1000, SHORTEST_REST_SECONDS)
            self.aim_at(asyncio.get_running_loop().time() + seconds)
        return bool(nodes)

    async def _move_lost_runs(self) -> bool:
        nodes = await self._store.read(ended_nodes_with_runs)
        if not nodes:
            return False
        may_expire = self._leases.may_expire()
        expected = self._leases.expected_database_ms()
        result = await self._with_ids(
            lambda ids: self._store.run(_lose, nodes, self._configs, may_expire, expected, ids)
        )
        if result.held:
            log.warning("run.held", runs=result.held)
        self._trace(result.ended, at=result.now)
        if result.lost:
            log.warning("run.lost", runs=result.lost)
            self._announce(result.followed)
        if result.handed_back:
            log.info("run.handed_back", runs=result.handed_back)
            self._announce(result.followed)
        for node_id in result.idle_nodes:  # slots taken by nothing
            await self._store.run(recount_slots, node_id)
        return result.lost + result.handed_back == RUNS_PER_BATCH

    async def _repair(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._repaired_at < REPAIR_SECONDS:
            return
        self._repaired_at = now
        repaired = await self._store.run(repair_stalled, after=self._repaired_to)
        self._repaired_to = repaired.looked_to
        if repaired.followed.queued or repaired.followed.armed:
            self._announce(repaired.followed)
        cancelled, followed = await self._with_ids(
            lambda ids: self._store.run(cancel_orphans, self._configs, ids)
        )
        if cancelled:
            log.info("run.orphans_cancelled", runs=cancelled)
            self._announce(followed)

    async def _recount(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._recounted_at < RECOUNT_SECONDS:
            return
        self._recounted_at = now
        for node_id in await self._store.read(miscounted_nodes):
            await self._store.run(recount_slots, node_id)
        for pool_id in await self._store.read(miscounted_pools):
            log.warning("pool.recounted", pool_id=pool_id)
            await self._store.run(recount_pool, pool_id, self._configs)

    def _trace(self, ended: Sequence[Move], *, at: int) -> None:
        if self._tracer is not None and ended:
            self._tracer.recorded(ended, at=at, committed_ms=0)

    async def _with_ids(self, work: Callable[[Sequence[int]], Awaitable[T]]) -> T:
        return await self._ids.run_with_ids("run", work)

    def _announce(self, followed: FollowUpResult) -> None:
        self._events.publish(RUNS)
        self._events.publish(QUEUED)
        if followed.armed:
            self._events.publish(TRIGGERS)


def _ended(
    conn: sa.Connection, end: Callable[[sa.Connection], list[int]], expected: int | None
) -> list[int]:
    """Ids of those that `end` ended; none if the database's clock has just been set."""
    return end(conn) if clock_is_steady(conn, expected) else []


def _sweep_live(
    conn: sa.Connection,
    runs: Sequence[int],
    configs: JobConfigs,
    connected: Collection[int],
    may_expire: bool,
    expected: int | None,
    run_ids: Sequence[int],
) -> SweepResult:
    may_expire = may_expire and clock_is_steady(conn, expected)
    return sweep_live(conn, runs, configs, connected, may_expire, run_ids)


def _lose(
    conn: sa.Connection,
    nodes: Sequence[Node],
    configs: JobConfigs,
    may_expire: bool,
    expected: int | None,
    run_ids: Sequence[int],
) -> LostRunsResult:
    may_end_holds = may_expire and clock_is_steady(conn, expected)
    return move_lost_runs(conn, nodes, configs, run_ids, may_end_holds=may_end_holds)


def _past_deadline(conn: sa.Connection) -> tuple[list[PastDeadline], bool]:
    """(live runs past their deadline, whether queued ones are)."""
    now = now_ms(conn)
    live = runs_past_deadline(conn, now=now, limit=RUNS_PER_BATCH)
    return live, bool(queued_past_deadline(conn, now=now, limit=1))
