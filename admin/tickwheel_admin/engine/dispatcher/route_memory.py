"""What routing remembers from run to run: turns, uses and live runs of the jobs that look at them.

The rows of these jobs are locked, and written, by the claim, so that all admins go by one count. A
job whose row somebody else holds is left to them, unless only its turn is at stake: an edit must
not hold up its runs, and then two claims may take the same turn once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence, Set

import sqlalchemy as sa

from tickwheel_admin.domain.claims.router import Placement, Router
from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.routing.strategy import Memory
from tickwheel_admin.store.jobs.route_cursors import lock_jobs_to_claim, read_cursors, set_cursors
from tickwheel_admin.store.jobs.routing_memory import busy_nodes, read_uses, save_uses
from tickwheel_admin.store.runs.due import DueRun

MAX_USES = 50_000  # of nodes by jobs, that one batch reads; further jobs are left to the next one


class RouteMemory:
    """Locks the jobs of one claim, and keeps for the next what their routing counts."""

    def __init__(
        self,
        conn: sa.Connection,
        router: Router,
        due: Sequence[DueRun],
        *,
        configs: Mapping[tuple[int, int], JobConfig],
        limited: Set[int],
        executor_id: int,
    ) -> None:
        """Lock the jobs and tell the router what it must know of them.

        `left` are those whose runs are left to somebody else, or, if `is_full`, to the next batch.

        Args:
            limited: jobs that are locked in any case, because their runs may wait for each other.
        """
        self._conn = conn
        self._router = router
        turns: defaultdict[int, int] = defaultdict(int)
        by_turn: set[int] = set()
        counting: set[int] = set()
        avoiding: set[int] = set()
        self.left: set[int] = set()
        self.is_full = False
        for run in due:
            job_id = run.job_id
            memory = configs[job_id, run.job_revision].routing.record.memory
            if memory is Memory.TURN and router.size > 1:
                by_turn.add(job_id)
            elif memory is Memory.BUSY:
                avoiding.add(job_id)
            elif memory is Memory.USES:
                if len(counting - {job_id}) * router.size >= MAX_USES:
                    self.is_full = True
                    self.left.add(job_id)
                    continue
                counting.add(job_id)
            elif job_id not in limited:
                continue
            turns[job_id] += 1
        stood = lock_jobs_to_claim(conn, turns) if turns else {}
        self._stood = stood
        self._cursors = {job_id: cursor + turns[job_id] for job_id, cursor in stood.items()}
        held = turns.keys() - stood.keys()
        only_by_turn = held - limited - counting - avoiding
        self.left |= held - only_by_turn
        if only_by_turn:
            stood = stood | read_cursors(conn, only_by_turn)
        routed = (by_turn | counting | avoiding) & stood.keys()
        router.turns = {job_id: stood[job_id] for job_id in routed}
        if counting & routed:
            router.stored_uses = read_uses(conn, counting & routed)
        if avoiding & routed:
            router.busy = busy_nodes(conn, avoiding & routed, executor_id=executor_id)

    def keep(self, claimed: Collection[tuple[int, Placement]]) -> None:
        """Write what was claimed, by job; the rows of those jobs are still locked."""
        # Turns for which no node was found were not taken: none is left out. Nor were those of jobs
        # whose runs were all left to other admins: where each node has a way to one admin only, two
        # admins would pass a run to each other for ever.
        jobs = {job_id for job_id, _ in claimed}
        turns = self._router.turns
        taken = {
            job: turns[job] if job in jobs else self._stood.get(job, turns[job]) for job in turns
        }
        late = {
            job_id: taken[job_id]
            for job_id, written in self._cursors.items()
            if taken.get(job_id, written) != written
        }
        if late:
            set_cursors(self._conn, late)
        used: defaultdict[int, list[Placement]] = defaultdict(list)
        for job_id, placed in claimed:
            if job_id in self._router.stored_uses:
                used[job_id].append(placed)
        if used:
            save_uses(
                self._conn, {job_id: self._router.uses_of(job_id, used[job_id]) for job_id in used}
            )
