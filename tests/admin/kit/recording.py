"""A node that takes as long as it is told, and the time between its runs left out.

The planner, the claim and the recorder are those of an admin; only the database's clock is turned.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

import sqlalchemy as sa

from tests.admin.kit.clock import Clock
from tests.admin.kit.engine import Admin, FakeSession
from tests.admin.kit.messages import accepted, result
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.store.database import tables
from tickwheel_admin.store.database.database import Database
from tickwheel_admin.store.triggers.planning import ensure_buckets
from tickwheel_shared.protocol import Outcome, Result


class Recording:
    """Lets an executor's jobs run for a while."""

    def __init__(
        self,
        admin: Admin,
        node: FakeSession,
        clock: Clock,
        *,
        lasts_ms: Callable[[int], int],
        ends_as: Callable[[int], Outcome] = lambda _: Outcome.SUCCEEDED,
    ) -> None:
        """Begin now.

        Args:
            lasts_ms: how long the next attempt of a job takes.
            ends_as: how it ends.
        """
        self._admin, self._node, self._clock = admin, node, clock
        self._lasts_ms, self._ends_as = lasts_ms, ends_as
        self._ends: list[tuple[int, int, Result]] = []
        self._number = count()

    async def until(self, end: int) -> None:
        """Everything up to this instant, from one happening to the next."""
        await self._admin.database.run(ensure_buckets)
        while self._clock.now < end:
            await self._look()
            at = await self._next()
            if at is None or at >= end:
                break
            assert at > self._clock.now, "what is due does not happen"
            self._clock.now = at
            while self._ends and self._ends[0][0] <= self._clock.now:
                await self._admin.say(self._node, heappop(self._ends)[2])
        self._clock.now = end

    async def _look(self) -> None:
        database = self._admin.database
        await database.run(_keep_alive, self._node.node_id, self._clock.now)
        while await self._admin.engine.planner.run_once():
            pass
        while requests := await self._admin.dispatch_all(self._node):
            ids = [request.run for request in requests]
            jobs = await database.read(_jobs_of, ids)
            for request in requests:
                await self._admin.say(self._node, accepted(request))
                lasted = self._lasts_ms(jobs[request.run])
                ends_at = self._clock.now + lasted
                outcome = self._ends_as(jobs[request.run])
                done = result(request, outcome, duration_ms=lasted)
                heappush(self._ends, (ends_at, next(self._number), done))

    async def _next(self) -> int | None:
        fires, due = await self._admin.database.read(_next_instants, self._clock.now)
        ends = self._ends[0][0] if self._ends else None
        # Planned as early as an admin plans: but for that nothing happens between the instants.
        return min((each for each in (fires, due, ends) if each is not None), default=None)


def _jobs_of(conn: sa.Connection, run_ids: list[int]) -> dict[int, int]:
    rows = conn.execute(
        sa.select(tables.run.c.id, tables.run.c.job_id).where(tables.run.c.id.in_(run_ids))
    )
    return {row.id: row.job_id for row in rows}


def _keep_alive(conn: sa.Connection, node_id: int, now: int) -> None:
    conn.execute(
        sa.update(tables.node)
        .where(tables.node.c.id == node_id)
        .values(lease_expires_at=now + 10**9, full_lease_at=now + 10**9)
    )


def _next_instants(conn: sa.Connection, now: int) -> tuple[int | None, int | None]:
    fires = conn.execute(sa.select(sa.func.min(tables.trigger.c.next_fire_at))).scalar()
    queued = tables.run.c.state == RunState.QUEUED.value
    due = conn.execute(
        sa.select(sa.func.min(tables.run.c.due_at)).where(queued, tables.run.c.due_at > now)
    ).scalar()
    return fires, due


async def add_history(
    database: Database, job_id: int, durations_ms: list[int], *, now: int
) -> None:
    """Runs that have succeeded before, the first at `now` minus an hour for each."""
    rows = [
        {
            "id": 10**9 + job_id * 1_000 + number,
            "executor_id": 1,
            "job_id": job_id,
            "job_revision": 1,
            "origin": "api",
            "scheduled_at": now - 3_600_000 * (number + 1),
            "shard_index": 0,
            "shard_total": 1,
            "request_key": f"past-{number}",
            "priority": 5,
            "created_at": now - 3_600_000 * (number + 1),
            "state": RunState.SUCCEEDED.value,
            "due_at": now - 3_600_000 * (number + 1),
            "attempt": 1,
            "tries": 1,
            "started_at": now - 3_600_000 * (number + 1),
            "ended_at": now - 3_600_000 * (number + 1) + lasted,
            "log_lines": 0,
        }
        for number, lasted in enumerate(durations_ms)
    ]
    await database.run(lambda conn: conn.execute(sa.insert(tables.run), rows).close())
