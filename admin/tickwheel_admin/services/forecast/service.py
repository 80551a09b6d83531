"""What if: the next days as they are, and as they would be with changes that are not saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.forecast.changes import JobEdit
from tickwheel_admin.domain.forecast.comparison import ForecastComparison, ForecastRequest
from tickwheel_admin.domain.forecast.comparison import ForecastSide as ForecastSide
from tickwheel_admin.domain.forecast.comparison import JobDifference as JobDifference
from tickwheel_admin.domain.forecast.situation import ForecastJob, ForecastSituation
from tickwheel_admin.domain.forecast.tally import ForecastHour as ForecastHour
from tickwheel_admin.domain.forecast.tally import ForecastJobFigures as ForecastJobFigures
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.forecast.process import ForecastProcesses
from tickwheel_admin.services.forecast.proposed import Proposed, ProposedChanges
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.forecast.situation import (
    executors_beside,
    read_forecast_calendars,
    read_forecast_jobs,
    read_surroundings,
)
from tickwheel_admin.store.jobs.configs import JobConfigs

HOUR_MS = 3_600_000
MAX_HOURS = 168
MAX_JOBS = 20_000
CHUNK = 100  # jobs read at once: a statement has a branch for each
ROUNDS = 3  # of looking for executors whose jobs depend on those that were found


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The answer."""

    comparison: ForecastComparison
    job_names: Mapping[int, str]
    executor_ids: tuple[int, ...]  # whose jobs were simulated
    left_out: int  # executors that share pools or children, and that the caller may not see
    more_open_runs: bool  # more are queued than were read


class Forecasts:
    """Use cases of forecasts."""

    def __init__(self, store: Store, jobs: Jobs, *, processes: ForecastProcesses) -> None:
        """Compute in these processes."""
        self._store = store
        self._proposed = ProposedChanges(store, jobs)
        self._processes = processes
        self._heavy = HeavyReads()
        self._configs = JobConfigs(keep=1_000)

    async def what_if(self, actor: Actor, changes: object, *, hours: int) -> WhatIf:
        """Compare the next hours with and without some changes; nothing is saved.

        Args:
            changes: as a request names them.
            hours: 1 to MAX_HOURS.

        Raises:
            InvalidInput: a change breaks a rule, or concerns too many jobs.
            NotFound: a change is about what the caller may not see.
            TooMany: the caller has asked for too many at once.
            Unavailable: it took too long.
        """
        if not 1 <= hours <= MAX_HOURS:
            raise InvalidInput.one(
                "hours",
                "out_of_range",
                "This must be from %(low)d to %(high)d.",
                low=1,
                high=MAX_HOURS,
            )
        async with self._heavy.turn(actor.user_id):
            proposed = await self._proposed.read(actor, changes)
            jobs, executor_ids, left_out = await self._jobs(actor, proposed)
            around = await self._store.read(read_surroundings, executor_ids)
            specs = [trigger.spec for job in jobs for trigger in job.triggers]
            named = {spec.calendar for spec in specs} | {
                alarm.limits.calendar for job in jobs for alarm in job.config.alarms
            }
            for change in proposed.changes:
                if isinstance(change, JobEdit):
                    named |= {spec.calendar for spec in change.config.triggers}
            calendars = await self._store.read(
                read_forecast_calendars, {name for name in named if name is not None}
            )
            situation = ForecastSituation(
                now=around.now,
                jobs=tuple(jobs),
                nodes=around.nodes,
                calendars=calendars,
                pools=around.pools,
                paused=around.paused,
                open_runs=around.open_runs,
            )
            comparison = await self._processes.compare(
                ForecastRequest(
                    situation=situation,
                    changes=proposed.changes,
                    end=around.now + hours * HOUR_MS,
                )
            )
        return WhatIf(
            comparison=comparison,
            job_names={job.id: job.config.name for job in jobs},
            executor_ids=tuple(sorted(executor_ids)),
            left_out=left_out,
            more_open_runs=around.more_open_runs,
        )

    def close(self) -> None:
        """End what is under way."""
        self._processes.close()

    async def _jobs(
        self, actor: Actor, proposed: Proposed
    ) -> tuple[list[ForecastJob], set[int], int]:
        """The jobs of the executors concerned, and of those that depend on them."""
        scope = actor.scope(Permission.VIEW)
        jobs: list[ForecastJob] = []
        known: set[int] = set()
        new = set(proposed.executor_ids)
        hidden: set[int] = set()
        for _ in range(ROUNDS):
            if not new:
                break
            found = await self._read_jobs(new, room=MAX_JOBS - len(jobs))
            jobs += found
            known |= new
            beside = await self._store.read(executors_beside, found) - known
            hidden |= set() if scope is None else beside - scope
            new = beside - hidden
        return sorted(jobs, key=lambda job: job.id), known, len(hidden | new)

    async def _read_jobs(self, executor_ids: set[int], *, room: int) -> list[ForecastJob]:
        jobs: list[ForecastJob] = []
        while True:
            after = jobs[-1].id if jobs else 0
            found = await self._store.read(
                lambda conn, after: read_forecast_jobs(
                    conn, executor_ids, after=after, limit=CHUNK, configs=self._configs
                ),
                after,
            )
            jobs += found
            if len(jobs) > room:
                raise InvalidInput.one(
                    "changes",
                    "forecast.too_many_jobs",
                    "This concerns more than %(limit)d jobs.",
                    limit=MAX_JOBS,
                )
            if len(found) < CHUNK:
                return jobs
