"""Plays declared jobs in virtual time: one event after another, each at its instant."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any
from zoneinfo import ZoneInfo

from tickwheel_executor.handlers.handlers import Handlers
from tickwheel_executor.testing.handler_end import HandlerEnd
from tickwheel_executor.testing.memory_node import MemoryNode
from tickwheel_executor.testing.one_workflow import run_workflow
from tickwheel_executor.testing.requests import make_request
from tickwheel_executor.testing.workflow_end import WorkflowEnd
from tickwheel_executor.workflows.workflow import Workflow

from .instants import to_moment
from .job_plan import START, WAIT, JobPlan, TriggerPlan, as_object
from .live_run import LiveRun
from .simulated_run import SimulatedRun

Duration = timedelta | Callable[[datetime], timedelta]
Around = Callable[[datetime], AbstractContextManager[object]]

_UNFINISHED = ("failed", "timed_out")


class _Kind(IntEnum):
    """What happens at the same instant happens in this order: an end makes room for a fire."""

    END = 0
    READY = 1
    FIRE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a test says beside its executor."""

    start: int  # UTC epoch ms
    until: int  # no fire from then on; runs that have begun go on to their ends
    zone: ZoneInfo
    nodes: int
    durations: Mapping[str, Duration]  # by job; others take no time
    answers: Mapping[str, Mapping[str, bool]]  # by workflow, as for `run_workflow`
    returns: Mapping[str, Mapping[str, Any]]
    around: Around | None
    max_runs: int


class SchedulePlay:
    """One simulation.

    Args:
        handlers: of the executor under test, which stays open for more.
        jobs: those to play.
    """

    def __init__(self, handlers: Handlers, jobs: Sequence[JobPlan], rules: Rules) -> None:
        self._handlers = handlers
        self._jobs = jobs
        self._rules = rules
        self._now = rules.start
        self._order = itertools.count()
        self._ids = itertools.count(1)
        self._events: list[tuple[int, _Kind, int, Callable[[], Any]]] = []
        self._live: defaultdict[str, list[LiveRun]] = defaultdict(list)  # not ended, by job
        self._states: dict[str, dict[str, Any]] = {}
        self._ended: list[SimulatedRun] = []
        self._fired: Counter[str] = Counter()

    async def play(self) -> list[SimulatedRun]:
        """Every run, in the order of their instants.

        Raises:
            ValueError: there are more runs than the test allows.
        """
        for job in self._jobs:
            for trigger in job.triggers:
                self._plan(job, trigger, trigger.first_from(self._rules.start))
        wanted = dict.fromkeys(job.handler for job in self._jobs if not job.is_workflow)
        async with MemoryNode(self._handlers.only(*wanted), name="simulated_schedule") as node:
            while self._events:
                self._now, _, _, action = heapq.heappop(self._events)
                changed = action()
                if changed is not None:
                    await self._look(changed, node)
        return sorted(self._ended, key=lambda each: each.scheduled_at)

    # --- what happens -----------------------------------------------------------------------------

    def _at(self, at: int, kind: _Kind, action: Callable[[], JobPlan | None]) -> None:
        heapq.heappush(self._events, (at, kind, next(self._order), action))

    def _plan(self, job: JobPlan, trigger: TriggerPlan, at: int | None) -> None:
        if at is not None and at < self._rules.until:
            self._at(at, _Kind.FIRE, lambda: self._fire(job, trigger, at))

    def _fire(self, job: JobPlan, trigger: TriggerPlan, at: int) -> None:
        self._fired[job.name] += 1
        if self._fired.total() > self._rules.max_runs:
            most = ", ".join(f"{name}: {count:,}" for name, count in self._fired.most_common(3))
            raise ValueError(
                f"more than {self._rules.max_runs:,} runs ({most}): simulate a shorter time, name "
                "the jobs to simulate with jobs=…, or raise max_runs"
            )
        run = LiveRun(
            id=next(self._ids),
            job=job,
            trigger=trigger,
            scheduled_at=at,
            due_at=trigger.due_at(at),
            interval_start=trigger.interval_start(at),
            parameters=trigger.parameters(job.parameters),
        )
        self._live[job.name].append(run)
        self._at(run.due_at, _Kind.READY, lambda: self._ready(run))
        self._plan(job, trigger, trigger.fire(at))

    def _ready(self, run: LiveRun) -> JobPlan:
        run.is_ready = True
        return run.job

    def _try_ended(self, run: LiveRun, end: HandlerEnd | WorkflowEnd) -> JobPlan | None:
        if not run.is_running:
            return None  # it was cancelled meanwhile
        run.is_running = False
        run.ends.append(end)
        if isinstance(end, HandlerEnd):
            if end.state is not None:
                self._states[run.job.name] = end.state
            run.checkpoint = end.checkpoint
            if (delay := self._delay_after(run, end)) is not None:
                self._at(self._now + delay, _Kind.READY, lambda: self._ready(run))
                return run.job
        self._end(run, end.outcome)
        return run.job

    def _delay_after(self, run: LiveRun, end: HandlerEnd) -> int | None:
        if end.final or end.outcome not in _UNFINISHED:
            return None
        tries = len(run.ends)
        delay = run.job.delay_after(end.outcome, tries=tries, run_id=run.id)
        if end.retry_after is not None and tries < run.job.max_tries:
            return round(end.retry_after * 1000)
        return delay

    # --- what may begin ---------------------------------------------------------------------------

    async def _look(self, job: JobPlan, node: MemoryNode) -> None:
        """Begin, skip or cancel what the rules say, until nothing changes."""
        while True:
            live = self._live[job.name]
            running = [each.standing for each in live if each.is_running]
            waiting = [each.standing for each in live if not each.is_running]
            if job.covers_early and (covered := set(job.to_cover(running, waiting))):
                for run in [each for each in live if each.id in covered]:
                    self._end(run, "cancelled", "covered")
                continue
            for run in sorted(live, key=lambda each: (each.scheduled_at, each.id)):
                if run.is_running or not run.is_ready:
                    continue
                latest = job.start_by(run.due_at) if run.started_at is None else None
                if latest is not None and self._now > latest:
                    self._end(run, "skipped", "expired")
                    break
                verdict = job.verdict(run.standing, running, waiting)
                if verdict == START:
                    await self._begin(run, node)
                    break
                if verdict != WAIT:
                    self._end(run, "skipped", verdict)
                    break
            else:
                return

    async def _begin(self, run: LiveRun, node: MemoryNode) -> None:
        run.is_ready, run.is_running = False, True
        if run.started_at is None:
            run.started_at = self._now
        moment = to_moment(self._now, self._rules.zone)
        around = self._rules.around
        with nullcontext() if around is None else around(moment):
            end = await self._carry_out(run, node)
        lasts = self._duration(run, end, moment)
        limit = run.job.timeout_ms
        if limit is not None and lasts > limit and isinstance(end, HandlerEnd):
            end = replace(end, outcome="timed_out", message="it took longer than its timeout")
            lasts = limit
        self._at(self._now + lasts, _Kind.END, lambda: self._try_ended(run, end))

    def _duration(self, run: LiveRun, end: HandlerEnd | WorkflowEnd, moment: datetime) -> int:
        """In milliseconds of virtual time."""
        told = self._rules.durations.get(run.job.name)
        if told is None:
            return round(end.seconds * 1000) if isinstance(end, WorkflowEnd) else 0
        lasts = told if isinstance(told, timedelta) else told(moment)
        return max(0, lasts // timedelta(milliseconds=1))

    async def _carry_out(self, run: LiveRun, node: MemoryNode) -> HandlerEnd | WorkflowEnd:
        """One try, now: what it does is done; its end comes when its time has passed."""
        job, zone = run.job, self._rules.zone
        if job.is_workflow:
            workflow = self._handlers.jobs.workflow(job.name)
            if not isinstance(workflow, Workflow):
                raise TypeError(f"{job.name!r} is no workflow of this SDK")
            return await run_workflow(
                workflow,
                parameters=as_object(run.parameters),
                answers=self._rules.answers.get(job.name),
                returns=self._rules.returns.get(job.name),
                scheduled_at=to_moment(run.scheduled_at, zone),
            )
        total = job.shards(self._rules.nodes)
        ends = [await self._shard(run, node, index, total) for index in range(total)]
        # As the admin sees a whole fire: it fails by its first shard that fails.
        return next((end for end in ends if not end.succeeded), ends[0])

    async def _shard(self, run: LiveRun, node: MemoryNode, index: int, total: int) -> HandlerEnd:
        job, zone = run.job, self._rules.zone
        start = run.interval_start
        request = make_request(
            next(self._ids) if total > 1 else run.id,
            job.handler,
            as_object(run.parameters),
            job=job.name,
            origin="schedule",
            state=self._states.get(job.name, {}) if job.keeps_state else None,
            checkpoint=run.checkpoint,
            try_number=len(run.ends) + 1,
            max_tries=job.max_tries,
            shard_index=index,
            shard_total=total,
            scheduled_at=to_moment(run.scheduled_at, zone),
            due_at=to_moment(run.due_at, zone),
            interval_start=None if start is None else to_moment(start, zone),
        )
        return await node.run(request)

    # --- what has ended ---------------------------------------------------------------------------

    def _end(self, run: LiveRun, outcome: str, reason: str | None = None) -> None:
        run.is_running = False
        self._live[run.job.name].remove(run)
        zone, start = self._rules.zone, run.interval_start
        self._ended.append(
            SimulatedRun(
                job=run.job.name,
                scheduled_at=to_moment(run.scheduled_at, zone),
                started_at=None if run.started_at is None else to_moment(run.started_at, zone),
                ended_at=to_moment(self._now, zone),
                outcome=outcome,
                reason=reason,
                interval_start=None if start is None else to_moment(start, zone),
                parameters=as_object(run.parameters),
                ends=tuple(run.ends),
            )
        )
        if run.trigger.follows_runs:
            self._plan(run.job, run.trigger, run.trigger.next_after_end(self._now))
