"""Nothing is stuck for ever: what is past its deadline is asked about, ended, or moved on."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field

import sqlalchemy as sa
import structlog

from tickwheel_admin.domain import moves as run_moves
from tickwheel_admin.domain.job import JobConfig
from tickwheel_admin.domain.run import (
    CANCEL_REPEAT_MS,
    CONFIRM_MS,
    LIVE,
    Move,
    Run,
    RunState,
)
from tickwheel_admin.engine.leases import Leases
from tickwheel_admin.engine.loop import Loop
from tickwheel_admin.engine.ports import Links
from tickwheel_admin.services.events import NODES, QUEUED, RUNS, Events
from tickwheel_admin.store.admins import remove_dead_admins
from tickwheel_admin.store.clock import now_ms
from tickwheel_admin.store.database import Store
from tickwheel_admin.store.job_configs import JobConfigs
from tickwheel_admin.store.nodes import (
    ended_nodes_with_runs,
    expire_nodes,
    miscounted_nodes,
    recount_slots,
)
from tickwheel_admin.store.runs import (
    PastDeadline,
    live_runs_of_nodes,
    lock_runs,
    move_runs,
    runs_past_deadline,
    set_deadlines,
)
from tickwheel_shared.protocol import Cancel, CancelReason, Message, Query

log = structlog.get_logger(__name__)

RUNS_PER_BATCH = 500
RECOUNT_SECONDS = 30.0


@dataclass(slots=True)
class _Swept:
    """What one transaction decided about runs past their deadline."""

    messages: defaultdict[int, list[Message]] = field(default_factory=lambda: defaultdict(list))
    moved: int = 0


class Sweeper(Loop):
    """Runs past their deadline, nodes and admins whose lease is over, and miscounted slots."""

    interval_seconds = 1.0

    def __init__(
        self, store: Store, links: Links, leases: Leases, events: Events, *, configs: JobConfigs
    ) -> None:
        super().__init__()
        self._store = store
        self._links = links
        self._leases = leases
        self._events = events
        self._configs = configs
        self._recounted_at = 0.0

    async def run_once(self) -> bool:
        more = await self._sweep_deadlines()
        if self._leases.may_expire():
            await self._expire()
        more = await self._lose_runs() or more
        await self._recount()
        return more

    async def _sweep_deadlines(self) -> bool:
        past = await self._store.read(_past_deadline)
        connected = self._links.connected()
        may_expire = self._leases.may_expire()
        # A node's own admins ask it; a timeout can be ended by anyone who trusts its own view.
        ids = [p.run_id for p in past if may_expire or p.node_id in connected]
        if not ids:
            return False
        swept = await self._store.run(_sweep, ids, self._configs, frozenset(connected), may_expire)
        for node_id, messages in swept.messages.items():
            self._links.send(node_id, messages)
        if swept.moved:
            log.info("sweeper.timed_out", runs=swept.moved)
            self._announce()
        return len(past) == RUNS_PER_BATCH and swept.moved > 0

    async def _expire(self) -> None:
        for node_id in await self._store.run(expire_nodes):
            log.warning("node.expired", node_id=node_id)
            self._events.publish(NODES)
        for admin_id in await self._store.run(remove_dead_admins):
            log.warning("admin.expired", admin_id=admin_id)

    async def _lose_runs(self) -> bool:
        node_ids = await self._store.read(ended_nodes_with_runs)
        if not node_ids:
            return False
        lost = await self._store.run(_lose, node_ids, self._configs)
        if lost:
            log.warning("run.lost", runs=lost)
            self._announce()
        else:
            for node_id in node_ids:  # slots taken by nothing
                await self._store.run(recount_slots, node_id)
        return lost == RUNS_PER_BATCH

    async def _recount(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._recounted_at < RECOUNT_SECONDS:
            return
        self._recounted_at = now
        for node_id in await self._store.read(miscounted_nodes):
            await self._store.run(recount_slots, node_id)

    def _announce(self) -> None:
        self._events.publish(RUNS)
        self._events.publish(QUEUED)


def _past_deadline(conn: sa.Connection) -> list[PastDeadline]:
    return runs_past_deadline(conn, now=now_ms(conn), limit=RUNS_PER_BATCH)


def _sweep(
    conn: sa.Connection,
    ids: Collection[int],
    configs: JobConfigs,
    connected: Collection[int],
    may_expire: bool,
) -> _Swept:
    now = now_ms(conn)
    swept = _Swept()
    moves: list[Move] = []
    deadlines: list[tuple[int, int]] = []
    locked = lock_runs(conn, ids)
    known = configs.get_many(conn, {(run.job_id, run.job_revision) for run in locked.values()})
    for run in locked.values():
        if run.state not in LIVE or run.deadline_at is None or run.deadline_at > now:
            continue  # somebody else dealt with it meanwhile
        config = known[run.job_id, run.job_revision]
        if _timeout_is_over(run, config, now=now):
            if may_expire:
                moves.append(run_moves.timed_out(run, config.retry, now=now))
                swept.messages[run.node_id or 0].append(_cancel(run, CancelReason.TIMEOUT))
            continue
        if run.node_id is None or run.node_id not in connected:
            continue
        if run.cancel_requested_at is not None:
            swept.messages[run.node_id].append(_cancel(run, CancelReason.OPERATOR))
            deadlines.append((run.id, now + CANCEL_REPEAT_MS))
        else:
            query = Query(run=run.id, attempt=run.attempt, token=run.claim_token or "")
            swept.messages[run.node_id].append(query)
            deadlines.append((run.id, now + CONFIRM_MS))
    move_runs(conn, moves)
    set_deadlines(conn, deadlines)
    swept.moved = len(moves)
    return swept


def _timeout_is_over(run: Run, config: JobConfig, *, now: int) -> bool:
    return (
        run.state is RunState.RUNNING
        and config.timeout_ms is not None
        and run.started_at is not None
        and run_moves.running_deadline(run.started_at, config.timeout_ms) <= now
    )


def _cancel(run: Run, reason: CancelReason) -> Cancel:
    return Cancel(run=run.id, attempt=run.attempt, token=run.claim_token or "", reason=reason)


def _lose(conn: sa.Connection, node_ids: Collection[int], configs: JobConfigs) -> int:
    """Move runs of dead nodes on; returns how many."""
    now = now_ms(conn)
    ended = set(node_ids)
    locked = lock_runs(conn, live_runs_of_nodes(conn, node_ids, limit=RUNS_PER_BATCH))
    known = configs.get_many(conn, {(run.job_id, run.job_revision) for run in locked.values()})
    moves = [
        run_moves.lost(run, known[run.job_id, run.job_revision].retry, now=now)
        for run in locked.values()
        if run.state in LIVE and run.node_id in ended
    ]
    move_runs(conn, moves)
    return len(moves)
