"""The blocking strategies, decided in the claim transaction (guarantee G8).

The transaction locks, and writes, the rows of the jobs concerned, and locks their live runs. A
transaction that ends one of them waits until the claim has committed; then it finds the runs that
the claim parked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from tickwheel_admin.domain.runs import moves as run_moves
from tickwheel_admin.domain.runs.blocking import (
    Blocking,
    BlockingPolicy,
    Lanes,
    Standing,
    Verdict,
    decide,
    to_cover,
)
from tickwheel_admin.domain.runs.run import PARKED_AT, Move, Run
from tickwheel_admin.store.runs.lanes import (
    BlockingLane,
    count_live,
    lane_of,
    lock_live,
    waiting_runs,
)

WINDOW = 200  # waiting runs of a job that one decision reads, beside those its policy counts


@dataclass(slots=True)
class _JobRuns:
    """The runs of one job, as they stand while a batch is decided."""

    live: dict[Hashable, list[Standing]]
    waiting: dict[Hashable, list[Standing]]
    runs: dict[int, Run]  # locked ones, live or waiting


class ConcurrencyControl:
    """Decides about the runs of jobs that are not parallel."""

    def __init__(
        self,
        conn: sa.Connection,
        policies: Mapping[int, BlockingPolicy],
        locked: Iterable[Run],
        *,
        broadcasts: Collection[int],
        now: int,
    ) -> None:
        """Read the live and the waiting runs of the jobs.

        Args:
            policies: by job; the rows of these jobs are locked by this transaction.
            locked: their due runs, locked too.
            broadcasts: those of the jobs that are broadcast.
        """
        self._now = now
        self._broadcasts = broadcasts
        self._jobs: dict[int, _JobRuns] = {}
        if not policies:
            return
        live: defaultdict[int, list[Run]] = defaultdict(list)
        counted = count_live(conn, policies)
        if counted:
            for each in lock_live(conn, counted):
                live[each.job_id].append(each)
        # If fewer could be locked, another transaction moves one of them: the next pass decides.
        undecided = {job_id for job_id, count in counted.items() if len(live[job_id]) < count}
        limits = {
            job_id: WINDOW + policy.concurrency + (policy.max_waiting or 0)
            for job_id, policy in policies.items()
            if job_id not in undecided
        }
        waiting: defaultdict[int, list[Run]] = defaultdict(list)
        for each in waiting_runs(conn, limits):
            waiting[each.job_id].append(each)
        known = {each.id: each for each in locked}
        for job_id in limits:
            job = self._jobs[job_id] = _JobRuns(live={}, waiting={}, runs={})
            for each in live[job_id]:
                job.live.setdefault(self._lane(each), []).append(self._standing(each))
                job.runs[each.id] = each
            for each in waiting[job_id]:
                job.waiting.setdefault(self._lane(each), []).append(self._standing(each))
                if each.id in known:
                    job.runs[each.id] = known[each.id]

    def decides(self, run: Run) -> bool:
        """Whether enough is known about the run's job."""
        return run.job_id in self._jobs

    def verdict(self, run: Run, policy: BlockingPolicy) -> Verdict:
        """What the run may do now. It counts as waiting until `started` or `left` is called."""
        job = self._jobs[run.job_id]
        return decide(policy, self._standing(run), Lanes(live=job.live, waiting=job.waiting))

    def started(self, run: Run) -> None:
        """The run is claimed: it counts as live for those that wait."""
        self.left(run)
        standing = self._standing(run)
        self._jobs[run.job_id].live.setdefault(self._lane(run), []).append(standing)

    def left(self, run: Run) -> None:
        """The run will not start: no other run waits for it."""
        job = self._jobs[run.job_id]
        lane = self._lane(run)
        job.waiting[lane] = [s for s in job.waiting.get(lane, ()) if s.run_id != run.id]

    def cover(self, run: Run, policy: BlockingPolicy) -> list[Move]:
        """The moves that ask live runs to end for newer ones that wait."""
        job = self._jobs[run.job_id]
        covered = to_cover(policy, self._lane(run), Lanes(live=job.live, waiting=job.waiting))
        moves = []
        for run_id in covered:
            live = job.runs.get(run_id)
            if live is not None and live.cancel_requested_at is None:
                move = run_moves.stop_wanted(live, reason="covered", now=self._now)
                job.runs[run_id] = move.after
                moves.append(move)
        return moves

    def parked(self, job_ids: Collection[int]) -> list[int]:
        """Ids of the parked runs of these jobs."""
        return [
            standing.run_id
            for job_id in job_ids
            if job_id in self._jobs
            for standings in self._jobs[job_id].waiting.values()
            for standing in standings
            if standing.parked
        ]

    def _lane(self, each: Run) -> BlockingLane:
        return lane_of(each, broadcast=each.job_id in self._broadcasts)

    def _standing(self, each: Run) -> Standing:
        parked = each.due_at == PARKED_AT
        due = each.due_at <= self._now
        return Standing(
            run_id=each.id,
            lane=self._lane(each),
            scheduled_at=each.scheduled_at,
            started=each.tries > 0,
            # A run that a node handed back comes before later ones, however soon it is due.
            # One that is too late to start delays no other, though it may not be skipped yet.
            ready=(due or parked or each.attempt > 0) and not each.is_expired(self._now),
            parked=parked,
            # Not a parked one: another run may have been unparked in its place.
            tries_again=due and each.tries > 0,
        )


def limits_concurrency(policy: BlockingPolicy) -> bool:
    """Whether runs of the job may have to wait for each other."""
    return policy.strategy is not Blocking.PARALLEL
