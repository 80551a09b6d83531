"""Reading what a forecast begins with: executors, those that depend on them, and their jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.forecast.situation import ForecastJob, ForecastSituation
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.forecast.situation import (
    executors_beside,
    read_forecast_calendars,
    read_forecast_jobs,
    read_surroundings,
)
from tickwheel_admin.store.jobs.configs import JobConfigs

MAX_JOBS = 20_000
CHUNK = 100  # jobs read at once: a statement has a branch for each
ROUNDS = 3  # of looking for executors whose jobs depend on those that were found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSituation:
    """A situation, and what of it was not read."""

    situation: ForecastSituation
    executor_ids: tuple[int, ...]  # whose jobs are part of it
    left_out: int  # executors that share pools or children, and are out of scope
    more_open_runs: bool  # more are queued than were read


class Situations:
    """Reads them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._configs = JobConfigs(keep=1_000)

    async def read(
        self,
        executor_ids: Collection[int],
        *,
        scope: Collection[int] | None,
        also: Sequence[ForecastJob] = (),
    ) -> ReadSituation:
        """The situation of these executors, and of those that share pools or children with them.

        Args:
            scope: no other executors are read; None: all may be.
            also: jobs as they would be saved there: what they name is part of it as well.

        Raises:
            InvalidInput: forecast.too_many_jobs.
        """
        jobs: list[ForecastJob] = []
        known: set[int] = set()
        new = set(executor_ids)
        hidden: set[int] = set()
        for _ in range(ROUNDS):
            if not new:
                break
            found = await self._read_jobs(new, room=MAX_JOBS - len(jobs))
            jobs += found
            known |= new
            beside = await self._store.read(executors_beside, [*found, *also]) - known
            hidden |= set() if scope is None else beside - set(scope)
            new = beside - hidden
        jobs.sort(key=lambda job: job.id)
        around = await self._store.read(read_surroundings, known, self._configs)
        named = {trigger.spec.calendar for job in jobs for trigger in job.triggers}
        named |= {spec.calendar for job in also for spec in job.config.triggers}
        named |= {alarm.limits.calendar for job in (*jobs, *also) for alarm in job.config.alarms}
        wanted = {name for name in named if name is not None}
        return ReadSituation(
            situation=ForecastSituation(
                now=around.now,
                jobs=tuple(jobs),
                nodes=around.nodes,
                calendars=await self._store.read(read_forecast_calendars, wanted),
                pools=around.pools,
                paused=around.paused,
                open_runs=around.open_runs,
            ),
            executor_ids=tuple(sorted(known)),
            left_out=len(hidden | new),
            more_open_runs=around.more_open_runs,
        )

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
