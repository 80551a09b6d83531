"""Whose turn it is: the blocking strategies, decided in the claim transaction (guarantee G8).

The rows of the jobs concerned are locked, and written, by this transaction, and so are their live
runs: whoever ends one of them waits, and then finds what was parked behind it.
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

WINDOW = 200  # waiting runs of a job that one decision looks at, beside those its policy counts


@dataclass(slots=True)
class _Line:
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
        """Read what stands in line.

        Args:
            policies: by job; the rows of these jobs are locked by this transaction.
            locked: their due runs, locked too.
            broadcasts: those of the jobs that are broadcast.
        """
        self._now = now
        self._broadcasts = broadcasts
        self._lines: dict[int, _Line] = {}
        if not policies:
            return
        live: defaultdict[int, list[Run]] = defaultdict(list)
        counted = count_live(conn, policies)
        if counted:
            for each in lock_live(conn, counted):
                live[each.job_id].append(each)
        # Somebody is moving one of the others right now: the next pass knows more.
        self._undecided = {job_id for job_id, count in counted.items() if len(live[job_id]) < count}
        limits = {
            job_id: WINDOW + policy.concurrency + (policy.max_waiting or 0)
            for job_id, policy in policies.items()
            if job_id not in self._undecided
        }
        waiting: defaultdict[int, list[Run]] = defaultdict(list)
        for each in waiting_runs(conn, limits):
            waiting[each.job_id].append(each)
        known = {each.id: each for each in locked}
        for job_id in limits:
            line = _Line(live={}, waiting={}, runs={})
            for each in live[job_id]:
                line.live.setdefault(self._lane(each), []).append(self._standing(each))
                line.runs[each.id] = each
            for each in waiting[job_id]:
                line.waiting.setdefault(self._lane(each), []).append(self._standing(each))
                if each.id in known:
                    line.runs[each.id] = known[each.id]
            self._lines[job_id] = line

    def decides(self, run: Run) -> bool:
        """Whether enough is known about the run's job."""
        return run.job_id in self._lines

    def verdict(self, run: Run, policy: BlockingPolicy) -> Verdict:
        """What the run may do now. It keeps its place in line until it `started` or `left`."""
        line = self._lines[run.job_id]
        return decide(
            policy,
            self._standing(run),
            Lanes(live=line.live, waiting=line.waiting),
        )

    def started(self, run: Run) -> None:
        """The run takes a place: those behind it see it as live."""
        self.left(run)
        standing = self._standing(run)
        self._lines[run.job_id].live.setdefault(self._lane(run), []).append(standing)

    def left(self, run: Run) -> None:
        """The run will not start: nobody waits for it."""
        line = self._lines[run.job_id]
        lane = self._lane(run)
        line.waiting[lane] = [s for s in line.waiting.get(lane, ()) if s.run_id != run.id]

    def cover(self, run: Run, policy: BlockingPolicy) -> list[Move]:
        """Ask live runs to end for newer ones that wait."""
        line = self._lines[run.job_id]
        covered = to_cover(policy, self._lane(run), Lanes(live=line.live, waiting=line.waiting))
        asked = []
        for run_id in covered:
            live = line.runs.get(run_id)
            if live is not None and live.cancel_requested_at is None:
                move = run_moves.stop_wanted(live, reason="covered", now=self._now)
                line.runs[run_id] = move.after
                asked.append(move)
        return asked

    def parked(self, job_ids: Collection[int]) -> list[int]:
        """Ids of the parked runs of these jobs."""
        return [
            standing.run_id
            for job_id in job_ids
            if job_id in self._lines
            for standings in self._lines[job_id].waiting.values()
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
            # What a node handed back stands before those that came later, however soon it is due.
            # What is too late to start stands before nobody, though it may not be skipped yet.
            ready=(due or parked or each.attempt > 0) and not each.is_expired(self._now),
            parked=parked,
            # A parked one holds nobody up: it may be another one that was woken in its place.
            tries_again=due and each.tries > 0,
        )


def limits_concurrency(policy: BlockingPolicy) -> bool:
    """Whether the job's runs stand in line."""
    return policy.strategy is not Blocking.PARALLEL
