"""What if: the next days as they are, and as they would be with changes that are not saved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.forecast.changes import NEW_JOB_IDS
from tickwheel_admin.domain.forecast.comparison import ForecastComparison, ForecastRequest
from tickwheel_admin.domain.forecast.comparison import ForecastSide as ForecastSide
from tickwheel_admin.domain.forecast.comparison import JobDifference as JobDifference
from tickwheel_admin.domain.forecast.night_plan import NightPlan, PlanRequest
from tickwheel_admin.domain.forecast.situation import workflows_of_steps
from tickwheel_admin.domain.forecast.tally import ForecastHour as ForecastHour
from tickwheel_admin.domain.forecast.tally import ForecastJobFigures as ForecastJobFigures
from tickwheel_admin.domain.forecast.windows import PlacementRequest
from tickwheel_admin.domain.triggers.placement import WindowPlacement
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.forecast.process import ForecastProcesses
from tickwheel_admin.services.forecast.proposed import ProposedChanges
from tickwheel_admin.services.forecast.situations import Situations
from tickwheel_admin.services.jobs.service import Jobs
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.store.database.database import Store

HOUR_MS = 3_600_000
MAX_HOURS = 168


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """The answer."""

    comparison: ForecastComparison
    job_names: Mapping[int, str]
    new_jobs: frozenset[int]  # ids that are made up, of jobs that the changes would add
    workflows: Mapping[int, int]  # the workflow's job of each hidden one, which has no page
    executor_ids: tuple[int, ...]  # whose jobs were simulated
    left_out: int  # executors that share pools or children, and that the caller may not see
    more_open_runs: bool  # more are queued than were read


class Forecasts:
    """Use cases of forecasts."""

    def __init__(self, store: Store, jobs: Jobs, *, processes: ForecastProcesses) -> None:
        """Compute in these processes."""
        self._situations = Situations(store)
        self._proposed = ProposedChanges(store, jobs)
        self._processes = processes
        self._heavy = HeavyReads()

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
            read = await self._situations.read(
                proposed.executor_ids,
                scope=actor.scope(Permission.VIEW),
                also=proposed.jobs,
            )
            situation = read.situation
            comparison = await self._processes.compare(
                ForecastRequest(
                    situation=situation,
                    changes=proposed.changes,
                    end=situation.now + hours * HOUR_MS,
                )
            )
        new_jobs = {job.id: job.config.name for job in proposed.jobs if job.id >= NEW_JOB_IDS}
        return WhatIf(
            comparison=comparison,
            job_names={job.id: job.config.name for job in situation.jobs} | new_jobs,
            new_jobs=frozenset(new_jobs),
            workflows=workflows_of_steps(situation.jobs),
            executor_ids=read.executor_ids,
            left_out=read.left_out,
            more_open_runs=read.more_open_runs,
        )

    async def place(self, request: PlacementRequest) -> Mapping[int, WindowPlacement]:
        """Where in their windows triggers should fire, for the engine; as `ForecastProcesses`."""
        return await self._processes.place(request)

    async def plan(self, request: PlanRequest) -> NightPlan:
        """The plan of the next hours, for the engine; as `ForecastProcesses`."""
        return await self._processes.plan(request, for_engine=True)

    def close(self) -> None:
        """End what is under way."""
        self._processes.close()
