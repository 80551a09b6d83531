"""The night plan: past, running and predicted runs of an executor or a node, and its deadlines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tickwheel_admin.domain.alarms.kind import AlarmKind
from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.forecast.critical_path import PathStep as PathStep
from tickwheel_admin.domain.forecast.critical_path import StepOrigin as StepOrigin
from tickwheel_admin.domain.forecast.critical_path import WaitReason as WaitReason
from tickwheel_admin.domain.forecast.deadline_record import ForecastScore as ForecastScore
from tickwheel_admin.domain.forecast.deadline_record import score_of
from tickwheel_admin.domain.forecast.night_plan import (
    MAX_BARS,
    PlanDeadline,
    PlanRequest,
    most_frequent,
)
from tickwheel_admin.domain.forecast.night_plan import DeadlineForecast as DeadlineForecast
from tickwheel_admin.domain.forecast.night_plan import DeadlineVerdict as DeadlineVerdict
from tickwheel_admin.domain.forecast.night_plan import NightPlan as NightPlan
from tickwheel_admin.domain.forecast.night_plan import PlanBar as PlanBar
from tickwheel_admin.domain.forecast.night_plan import PlanSum as PlanSum
from tickwheel_admin.domain.forecast.night_plan import RemedyOutcome as RemedyOutcome
from tickwheel_admin.domain.forecast.plan_deadlines import deadlines_of
from tickwheel_admin.domain.forecast.remedies import Remedy as Remedy
from tickwheel_admin.domain.forecast.remedies import RemedyKind as RemedyKind
from tickwheel_admin.domain.forecast.situation import ForecastJob, workflows_of_steps
from tickwheel_admin.domain.users.user import Actor, Permission
from tickwheel_admin.services.forecast.process import ForecastProcesses
from tickwheel_admin.services.forecast.situations import CHUNK, ReadSituation, Situations
from tickwheel_admin.services.lists.heavy_reads import HeavyReads
from tickwheel_admin.services.lists.scope import not_found
from tickwheel_admin.store.alarms.rules import rules_of_kinds
from tickwheel_admin.store.database.clock import now_ms
from tickwheel_admin.store.database.database import Store
from tickwheel_admin.store.executors.executors import get_executor, get_node
from tickwheel_admin.store.forecast.deadline_forecasts import known_ends
from tickwheel_admin.store.forecast.ended_runs import PER_JOB, ended_runs
from tickwheel_admin.store.forecast.ended_runs import EndedRun as EndedRun
from tickwheel_admin.store.forecast.situation import read_forecast_calendars

HOUR_MS = 3_600_000
MAX_HOURS = 24
MAX_PAST_HOURS = 12
LENIENT_MS = 60_000  # who asks for the most may have taken a moment to ask
LATER_MS = 6 * HOUR_MS  # simulated beyond each deadline, so that it is known how late it gets
SCORED_DAYS = 30
MAX_DEADLINES = 500  # of one plan, the first ones


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorPlan:
    """The answer."""

    executor_id: int
    node_id: int | None  # only runs there
    from_at: int
    now: int
    past: tuple[EndedRun, ...]
    past_sums: tuple[PlanSum, ...]
    more_past_runs: bool  # of a job there are more than are told
    plan: NightPlan
    job_names: Mapping[int, str]  # of the jobs that the caller may see
    workflows: Mapping[int, int]  # the workflow's job of each hidden one, which has no page
    node_names: Mapping[int, str]  # of live nodes of the executor
    more_open_runs: bool
    more_deadlines: bool  # some are too many, or later than what could be simulated
    score: ForecastScore  # of the executor's forecasts of the last days


class NightPlans:
    """Use cases of plans."""

    def __init__(self, store: Store, *, processes: ForecastProcesses) -> None:
        """Compute in these processes."""
        self._store = store
        self._situations = Situations(store)
        self._processes = processes
        self._heavy = HeavyReads()

    async def get(
        self,
        actor: Actor,
        executor_id: int,
        *,
        node_id: int | None = None,
        nodes: bool = False,
        from_at: int | None = None,
        back_hours: int = 2,
        hours: int = 12,
    ) -> ExecutorPlan:
        """The plan of an executor.

        Args:
            node_id: only runs there, and no deadlines.
            nodes: let the router place predicted runs, so that each has its node.
            from_at: UTC epoch ms, at most MAX_PAST_HOURS ago; None: as long ago as the next says.
            back_hours: 0 to MAX_PAST_HOURS.
            hours: 1 to MAX_HOURS, from now on.

        Raises:
            NotFound: there is no such executor, or none that the caller may see.
            InvalidInput: out of range, or it has too many jobs.
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
        await self._require(actor, executor_id, node_id)
        now = await self._store.read(now_ms)
        begin = now - back_hours * HOUR_MS if from_at is None else from_at
        if not now - MAX_PAST_HOURS * HOUR_MS - LENIENT_MS <= begin <= now:
            raise InvalidInput.one(
                "from",
                "plan.too_far",
                "This must be within the last %(hours)d hours.",
                hours=MAX_PAST_HOURS,
            )
        async with self._heavy.turn(actor.user_id):
            # Whoever may see the executor may know when its runs start, whatever holds them up.
            read = await self._situations.read([executor_id], scope=None)
            jobs = [job for job in read.situation.jobs if job.executor_id == executor_id]
            past, more_past_runs = await self._past(jobs, begin, node_id)
            until = read.situation.now + hours * HOUR_MS
            deadlines: list[PlanDeadline] = []
            if node_id is None:
                deadlines = await self._deadlines(read, jobs, until)
            plan = await self._processes.plan(
                PlanRequest(
                    situation=read.situation,
                    until=until,
                    end=_end(until, deadlines),
                    executor_id=executor_id,
                    deadlines=deadlines[:MAX_DEADLINES],
                    node_id=node_id,
                    routed=nodes,
                )
            )
        scored_since = read.situation.now - SCORED_DAYS * 24 * HOUR_MS
        scope = actor.scope(Permission.VIEW)
        summed = most_frequent([each.job_id for each in past], MAX_BARS)
        return ExecutorPlan(
            executor_id=executor_id,
            node_id=node_id,
            from_at=begin,
            now=read.situation.now,
            past=tuple(each for each in past if each.job_id not in summed),
            past_sums=tuple(_sum_of(each, past) for each in sorted(summed)),
            more_past_runs=more_past_runs,
            plan=plan,
            job_names={
                job.id: job.config.name
                for job in read.situation.jobs
                if scope is None or job.executor_id in scope
            },
            workflows=workflows_of_steps(read.situation.jobs),
            node_names={
                node.id: node.name
                for node in read.situation.nodes
                if node.executor_id == executor_id
            },
            more_open_runs=read.more_open_runs,
            more_deadlines=len(plan.deadlines) < len(deadlines),
            score=score_of(
                await self._store.read(known_ends, executor_id, since=scored_since),
                since=scored_since,
            ),
        )

    async def _require(self, actor: Actor, executor_id: int, node_id: int | None) -> None:
        if await self._store.read(get_executor, executor_id) is None:
            raise not_found()
        actor.require(Permission.VIEW, executor_id)
        if node_id is not None:
            node = await self._store.read(get_node, node_id)
            if node is None or node.node.executor_id != executor_id:
                raise not_found()

    async def _past(
        self, jobs: Sequence[ForecastJob], from_at: int, node_id: int | None
    ) -> tuple[list[EndedRun], bool]:
        found: list[EndedRun] = []
        for first in range(0, len(jobs), CHUNK):
            job_ids = [job.id for job in jobs[first : first + CHUNK]]
            found += await self._store.read(
                lambda conn, job_ids: ended_runs(conn, job_ids, from_at=from_at), job_ids
            )
        kept = [each for each in found if node_id is None or each.node_id == node_id]
        kept.sort(key=lambda each: (each.started_at or each.ended_at, each.id))
        most = max(Counter(each.job_id for each in found).values(), default=0)
        return kept, most >= PER_JOB

    async def _deadlines(
        self, read: ReadSituation, jobs: Sequence[ForecastJob], until: int
    ) -> list[PlanDeadline]:
        rules = await self._store.read(rules_of_kinds, [AlarmKind.DEADLINE_MISSED])
        if not any(rule.enabled for rule in rules):
            return []
        named = {rule.limits.calendar for rule in rules} - {None}
        calendars = await self._store.read(
            read_forecast_calendars, {each for each in named if each}
        )
        return deadlines_of(
            jobs,
            rules,
            {each.name: each for each in calendars},
            now=read.situation.now,
            until=until,
        )


def _end(until: int, deadlines: Sequence[PlanDeadline]) -> int:
    """Until when it is simulated: runs that start before `until` have their ends, too."""
    last = max((each.at for each in deadlines if not each.is_met), default=0)
    return max(until + HOUR_MS, last + LATER_MS)


def _sum_of(job_id: int, past: Sequence[EndedRun]) -> PlanSum:
    mine = [each for each in past if each.job_id == job_id]
    starts = [each.started_at or each.ended_at for each in mine]
    return PlanSum(
        job_id=job_id,
        runs=len(mine),
        first_at=min(starts),
        last_at=max(starts),
        busy_ms=sum(each.ended_at - (each.started_at or each.ended_at) for each in mine),
    )
