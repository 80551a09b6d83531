"""Who delays whom: the start delay of a run in parts, and a matrix of jobs over some hours.

Computed from the ledger when somebody asks; nothing is kept of it, and runs cost nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace

import sqlalchemy as sa

from tickwheel_admin.domain.delays.history import DelayKind, HistoryRun
from tickwheel_admin.domain.delays.matrix import DelayMatrix
from tickwheel_admin.domain.delays.of_run import DelayPart, parts_of_run
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.delays.process import DelayProcesses
from tickwheel_admin.services.delays.reading import HistoryReader, ReadHistory, ReadLimits
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.delays.runs import WaitedRun, run_waited
from tickwheel_admin.store.executors.executors import get_executor
from tickwheel_admin.store.jobs.jobs import executors_of_jobs, names_of_jobs

HOUR_MS = 3_600_000
MAX_HOURS = 48  # of a matrix
OF_RUN = ReadLimits(runs=5_000, entries=20_000)
OF_MATRIX = ReadLimits(runs=100_000, entries=500_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CausingRun:
    """A run that another waited for, as far as the reader may see it."""

    run_id: int | None  # None: of a job that the reader may not see
    job_id: int | None
    job_name: str | None  # None: that, or it is deleted for good
    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPart:
    """A part of the start delay of a run."""

    kind: DelayKind
    ms: int
    causes: tuple[CausingRun, ...]  # most first
    more_causes: int  # runs that are not among them
    more_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDelay:
    """The start delay of a run. Its parts add up to it."""

    run_id: int
    due_at: int  # when it was due first
    started_at: int | None  # of its first try; None: it has not
    # Whether it counts: not of backfills, tries of scripts, whole fires, and what never started.
    is_measured: bool
    ms: int  # up to now, if it still waits
    parts: tuple[ShownPart, ...]
    # Runs that were due earlier were not looked at, but for those that are live: the parts may say
    # "other" where a slot was taken. None: everything was looked at.
    unknown_before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownJob:
    """A job of the matrix, as far as the reader may see it."""

    job_id: int | None  # None: the reader may not
    name: str | None  # None: that, or it is deleted for good


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorDelays:
    """Who was delayed at an executor, and who caused it."""

    executor_id: int
    executor_name: str
    from_at: int
    until_at: int
    # More runs than are read at once: what was waited for before this is not told of. None: all is.
    cut_at: int | None
    matrix: DelayMatrix
    rows: tuple[ShownJob | None, ...]  # of the matrix; None: the rest
    causes: tuple[ShownJob, ...]


class Delays:
    """Use cases of delays. Whoever sees an executor sees who delays whom there."""

    def __init__(self, store: Store, *, processes: DelayProcesses) -> None:
        """Compute matrices in these processes."""
        self._store = store
        self._processes = processes
        self._reader = HistoryReader(store)
        self._heavy = HeavyReads()

    async def of_run(self, actor: Actor, run_id: int) -> RunDelay:
        """What a run waited for.

        Raises:
            NotFound: it is not there, or not to be seen.
            TooMany: the caller has asked for too many at once.
        """
        found, now = await self._store.read(_run_and_now, run_id)
        if found is None or not actor.may(Permission.VIEW, found.executor_id):
            raise not_found()
        end = now if found.started_at is None else found.started_at
        told = RunDelay(
            run_id=run_id,
            due_at=found.due_at,
            started_at=found.started_at,
            is_measured=found.is_measured,
            ms=max(0, end - found.due_at) if found.is_measured else 0,
            parts=(),
            unknown_before=None,
        )
        if not told.ms:
            return told
        async with self._heavy.turn(actor.user_id):
            read = await self._reader.read(
                found.executor_id,
                from_at=found.due_at,
                until_at=end,
                limits=OF_RUN,
                narrow=False,
                always=found,
            )
            parts = await asyncio.to_thread(_parts, run_id, read)
        jobs = await self._jobs(actor, {cause.job_id for part in parts for cause in part.causes})
        return replace(
            told,
            parts=tuple(_shown(part, jobs) for part in parts),
            unknown_before=read.read_from if read.read_from > found.due_at else None,
        )

    async def matrix(
        self,
        actor: Actor,
        executor_id: int,
        *,
        from_at: int | None,
        until_at: int | None,
        hours: int = 24,
    ) -> ExecutorDelays:
        """Who was delayed in some hours, and who caused it.

        Args:
            from_at: None: so many hours before the end.
            until_at: None, or later than now: now.

        Raises:
            NotFound: the executor is not there, or not to be seen.
            InvalidInput: on "from": nothing lies between the two, or more than MAX_HOURS.
            TooMany: the caller has asked for too many at once.
            Unavailable: it took too long.
        """
        if not actor.may(Permission.VIEW, executor_id):
            raise not_found()
        now = await self._store.read(now_ms)
        end = now if until_at is None else min(until_at, now)
        begin = max(0, end - hours * HOUR_MS) if from_at is None else from_at
        if begin >= end:
            raise InvalidInput.one(
                "from", "out_of_range", "This must be before the end, and before now."
            )
        if end - begin > MAX_HOURS * HOUR_MS:
            raise InvalidInput.one(
                "from", "out_of_range", "At most %(hours)d hours at once, please.", hours=MAX_HOURS
            )
        executor = await self._store.read(get_executor, executor_id)
        if executor is None:
            raise not_found()
        async with self._heavy.turn(actor.user_id):
            read = await self._reader.read(
                executor_id, from_at=begin, until_at=end, limits=OF_MATRIX, narrow=True
            )
            matrix = await self._processes.matrix(read.history)
        rows = [row.job_id for row in matrix.rows]
        causes = [cause.job_id for cause in matrix.causes]
        jobs = await self._jobs(actor, {*causes, *(each for each in rows if each is not None)})
        return ExecutorDelays(
            executor_id=executor_id,
            executor_name=executor.name,
            from_at=begin,
            until_at=end,
            cut_at=read.history.from_at if read.history.from_at > begin else None,
            matrix=matrix,
            rows=tuple(None if each is None else jobs[each] for each in rows),
            causes=tuple(jobs[each] for each in causes),
        )

    def close(self) -> None:
        """End what is under way."""
        self._processes.close()

    async def _jobs(self, actor: Actor, job_ids: Collection[int]) -> dict[int, ShownJob]:
        """As far as the caller may see them; their executors tell."""
        names, executors = await self._store.read(_names_of, job_ids)
        seen = {
            job_id: ShownJob(job_id=job_id, name=names.get(job_id))
            for job_id, executor_id in executors.items()
            if actor.may(Permission.VIEW, executor_id)
        }
        return dict.fromkeys(job_ids, ShownJob(job_id=None, name=None)) | seen


def _parts(run_id: int, read: ReadHistory) -> list[DelayPart]:
    run: HistoryRun = next(each for each in read.history.runs if each.id == run_id)
    return parts_of_run(run, read.history)


def _shown(part: DelayPart, jobs: dict[int, ShownJob]) -> ShownPart:
    return ShownPart(
        kind=part.kind,
        ms=part.ms,
        causes=tuple(
            CausingRun(
                run_id=None if (job := jobs[cause.job_id]).job_id is None else cause.run_id,
                job_id=job.job_id,
                job_name=job.name,
                ms=cause.ms,
            )
            for cause in part.causes
        ),
        more_causes=part.more_causes,
        more_ms=part.more_ms,
    )


def _run_and_now(conn: sa.Connection, run_id: int) -> tuple[WaitedRun | None, int]:
    return run_waited(conn, run_id), now_ms(conn)


def _names_of(
    conn: sa.Connection, job_ids: Collection[int]
) -> tuple[dict[int, str], dict[int, int]]:
    return names_of_jobs(conn, job_ids), executors_of_jobs(conn, job_ids)
