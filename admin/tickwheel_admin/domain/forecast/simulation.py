"""The next hours or days in virtual time: fires, claims, slots and ends, one event after another.

What is due is planned by the planner's rules, waits and starts in the order of the claim and by the
blocking strategies, is placed by the router, and takes as long as a run that was measured. Nothing
else is guessed: nodes stay as they are, nobody asks for runs, and no message takes any time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from tickwheel_admin.domain.forecast.claims import ForecastClaims, ForecastExecutor
from tickwheel_admin.domain.forecast.deadlines import missed_deadlines
from tickwheel_admin.domain.forecast.draws import Durations, assumed_ms
from tickwheel_admin.domain.forecast.journal import Journal
from tickwheel_admin.domain.forecast.placing import slots_of
from tickwheel_admin.domain.forecast.planned import PlannedFires, schedule_of
from tickwheel_admin.domain.forecast.queue import PoolLine
from tickwheel_admin.domain.forecast.runs import ForecastRun, JobModel, RunPhase
from tickwheel_admin.domain.forecast.situation import ForecastSituation, ForecastTrigger
from tickwheel_admin.domain.forecast.tally import ForecastHour, ForecastJobFigures, Tally, quantile
from tickwheel_admin.domain.jobs.children import follows
from tickwheel_admin.domain.planning.plan import next_after_end
from tickwheel_admin.domain.pools.pool import slots_taken
from tickwheel_admin.domain.routing.strategy import Split
from tickwheel_admin.domain.runs.blocking import Blocking, Verdict
from tickwheel_admin.domain.runs.run import FAILURES, Origin, RunState

MAX_RUNS = 150_000  # of one forecast; what comes later is left out
_END, _EXPIRE, _DUE = 0, 1, 2  # of events at one instant ends come first: they free slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a situation would bring."""

    start: int
    end: int  # earlier than asked for when there were more than MAX_RUNS
    slots: int
    runs: int
    hours: tuple[ForecastHour, ...]
    jobs: tuple[ForecastJobFigures, ...]
    delay_p50_ms: int | None
    delay_p95_ms: int | None
    late: int
    skipped: dict[str, int]  # by reason
    fires: dict[int, tuple[int, ...]]  # instants by job
    minutes: tuple[int, ...]  # slot-milliseconds by minute


class Simulation:
    """One forecast."""

    def __init__(
        self,
        situation: ForecastSituation,
        *,
        end: int,
        seed: int = 0,
        slow: bool = False,
        routed: bool = False,
        max_runs: int = MAX_RUNS,
        planned: PlannedFires | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Look at the situation.

        Args:
            end: UTC epoch ms.
            slow: let each run take as long as the slowest of twenty of its job.
            routed: let the router place all runs, also where that makes no difference.
            planned: what was computed for another forecast of the same triggers.
            journal: where each run is written down.
        """
        self._now, self._end = situation.now, end
        self._situation = situation
        self._calendars = {each.name: each for each in situation.calendars}
        self._left = max_runs
        self._ids = count(1)
        assumed = assumed_ms(situation.jobs)
        self._models = {
            job.id: JobModel(job, Durations(job, seed=seed, slow=slow, assumed_ms=assumed))
            for job in situation.jobs
        }
        of_executor: defaultdict[int, list[JobModel]] = defaultdict(list)
        for model in self._models.values():
            of_executor[model.executor_id].append(model)
        self._executors = {
            executor_id: ForecastExecutor(
                slots_of(
                    [node for node in situation.nodes if node.executor_id == executor_id],
                    models,
                    seed=seed,
                    routed=routed,
                )
            )
            for executor_id, models in sorted(of_executor.items())
        }
        self._pools = {each: PoolLine(each, slots) for each, slots in situation.pools.items()}
        self._claims = ForecastClaims(self._executors, self._pools, start=self._try_to_start)
        self._journal = journal
        self._planned = PlannedFires() if planned is None else planned
        self._fires_ahead: list[tuple[int, int, int, ForecastRun]] = []  # the last one first
        self._events: list[tuple[int, int, int, ForecastRun]] = []
        self._slots = sum(each.slots.total for each in self._executors.values())
        self._tally = Tally(start=self._now, end=end, slots=self._slots)
        self._reached = self._now
        self._busy = 0  # slots in use
        self._fires = {each.id: each.fires for job in situation.jobs for each in job.triggers}

    def run(self) -> Forecast:
        """Let the time pass."""
        self._begin()
        tally = self._tally
        tally.changes(self._now, busy=self._busy, waiting=self._waiting())
        events, ahead, end = self._events, self._fires_ahead, self._end
        while self._left > 0:
            at = min(events[0][0] if events else end, ahead[-1][0] if ahead else end)
            if at >= end:
                break
            touched: set[int] = set()
            while events and events[0][0] == at:
                _, kind, _, run = heappop(events)
                self._happens(kind, run, at, touched)
            while ahead and ahead[-1][0] == at:
                _, kind, _, run = ahead.pop()
                self._happens(kind, run, at, touched)
            for executor_id in sorted(touched) if len(touched) > 1 else touched:
                self._claims.claim(executor_id, at)
            tally.changes(at, busy=self._busy, waiting=self._waiting())
            self._reached = at
        if self._left <= 0:
            self._end = min(end, self._reached + 1)
        self._tally.close(self._end)
        delays = self._tally.all_delays()
        hours = self._tally.hours()
        if self._journal is not None:
            self._journal.close(self._end)
        return Forecast(
            start=self._now,
            end=self._end,
            slots=self._slots,
            runs=sum(each.runs for each in self._tally.jobs({})),
            hours=hours,
            jobs=self._tally.jobs(self._missed()),
            delay_p50_ms=quantile(delays, 0.5),
            delay_p95_ms=quantile(delays, 0.95),
            late=sum(hour.late for hour in hours),
            skipped=dict(sorted(self._tally.skips.items())),
            fires={key: tuple(found) for key, found in sorted(self._tally.fires_of.items())},
            minutes=tuple(self._tally.busy_ms),
        )

    def _missed(self) -> dict[int, tuple[int, ...]]:
        """Deadlines that were missed, by job."""
        jobs = self._situation.jobs
        found = {
            job.id: missed_deadlines(
                job,
                self._tally.successes.get(job.id, ()),
                start=self._now,
                end=self._end,
                calendars=self._calendars,
            )
            for job in jobs
        }
        return {job_id: missed for job_id, missed in found.items() if missed}

    def _happens(self, kind: int, run: ForecastRun, at: int, touched: set[int]) -> None:
        if kind == _DUE:
            self._due(run, at)
        elif kind == _END:
            self._attempt_ends(run, at)
            if run.model.pool_id:
                touched.update(self._executors)
        elif run.phase in (RunPhase.READY, RunPhase.PARKED) and run.tries == 0:
            self._skip(run, at, "expired")
        touched.add(run.model.executor_id)

    # --- the beginning -----------------------------------------------------------------------

    def _begin(self) -> None:
        for open_run in self._situation.open_runs:
            model = self._models.get(open_run.job_id)
            if model is None:
                continue
            trigger = next((t for t in model.job.triggers if t.id == open_run.trigger_id), None)
            run = ForecastRun(
                model,
                id=next(self._ids),
                scheduled_at=open_run.scheduled_at,
                due_at=max(self._now, min(open_run.due_at, self._end)),
                priority=open_run.priority,
                origin=open_run.origin,
                trigger=trigger,
                pinned_node_id=open_run.pinned_node_id,
            )
            run.first_due_at, run.tries = open_run.first_due_at, open_run.tries
            run.expires_at = open_run.expires_at
            if self._journal is not None:
                self._journal.opens(run, open_run.id)
            if open_run.node_id is None:
                self._comes(run)
                continue
            self._goes_on(run, open_run.node_id, open_run.started_at or self._now)
        for job in self._situation.jobs:
            if not job.paused:
                for trigger in job.triggers:
                    self._plan(self._models[job.id], trigger)
        self._fires_ahead.sort(reverse=True)
        # More than can be looked at: those that come first.
        del self._fires_ahead[: max(0, len(self._fires_ahead) - self._left - 1)]
        for _, _, _, run in self._fires_ahead:
            self._tally.fires(run.model.id, run.scheduled_at)

    def _goes_on(self, run: ForecastRun, node_id: int, started_at: int) -> None:
        """It runs when the forecast begins: as long as a run that took at least so long."""
        model = run.model
        run.tries = max(run.tries, 1)
        run.draw_at_least(self._now - started_at)
        run.phase, run.started_at = RunPhase.LIVE, started_at
        if run.stands_in_line:
            model.lives(run)
        run.node_id = self._executors[model.executor_id].slots.take(model, node_id)
        self._busy += 1
        self._take_of_pool(run)
        if self._journal is not None:
            self._journal.starts(run, started_at)
        run.ends_at = max(self._now, started_at + self._lasts(run))
        heappush(self._events, (run.ends_at, _END, run.id, run))

    def _plan(self, model: JobModel, trigger: ForecastTrigger) -> None:
        if trigger.paused:
            return
        paused_at = self._situation.paused.get(model.executor_id)
        priority = model.config.priority if trigger.spec.priority is None else trigger.spec.priority
        fires = self._planned.of(
            trigger,
            self._calendars,
            now=self._now,
            end=self._end - 1,
            paused_at=paused_at,
            limit=self._left + 1,
        )
        for fire in fires:
            run = self._fired(model, trigger, fire.scheduled_at, fire.due_at, priority)
            self._fires_ahead.append((run.due_at, _DUE, run.id, run))

    def _fired(
        self, model: JobModel, trigger: ForecastTrigger, at: int, due_at: int, priority: int
    ) -> ForecastRun:
        self._fires[trigger.id] = self._fires.get(trigger.id, 0) + 1
        return ForecastRun(
            model,
            id=next(self._ids),
            scheduled_at=at,
            due_at=due_at,
            priority=priority,
            trigger=trigger,
        )

    def _comes(self, run: ForecastRun) -> None:
        heappush(self._events, (run.due_at, _DUE, run.id, run))

    def _waiting(self) -> int:
        waiting = 0
        for executor in self._executors.values():
            waiting += len(executor.queue)
        if self._pools:
            waiting += sum(len(line.waiting) for line in self._pools.values())
        return waiting

    # --- due, and decided ----------------------------------------------------------------------

    def _due(self, run: ForecastRun, at: int) -> None:
        if run.tries == 0:
            if run.fire is None:
                self._tally.due(run.model.id, is_child=run.origin is Origin.CHILD)
                self._left -= 1
                if self._journal is not None:
                    self._journal.due(run)
            if run.expires_at is not None:
                heappush(self._events, (max(at, run.expires_at + 1), _EXPIRE, run.id, run))
        run.phase = RunPhase.READY
        if run.stands_in_line:
            run.model.waits(run)
            self._decide(run, at)
        else:
            self._may_start(run, at)

    def _decide(self, run: ForecastRun, at: int) -> bool:
        """Whether the blocking strategy lets it start; what else it says is done."""
        model = run.model
        verdict = model.verdict(run)
        if verdict is Verdict.START:
            if run.phase is RunPhase.PARKED:
                model.parked.remove(run)
                run.phase, run.due_at = RunPhase.READY, at
                model.waits(run)
            self._may_start(run, at)
            return True
        if verdict is not Verdict.WAIT:
            self._skip(run, at, verdict.value)
            return False
        if run.phase is not RunPhase.PARKED:
            if self._journal is not None:
                self._journal.parks(run)
            self._discard(run)
            run.phase = RunPhase.PARKED
            model.parked.append(run)
            model.waits(run)
        if model.policy.strategy is Blocking.COVER_EARLY:
            for covered in model.covered_in(run.lane):
                self._stop(covered, at)
        return False

    def _may_start(self, run: ForecastRun, at: int) -> None:
        if run.model.is_workflow:
            self._start(run, None, at)
        elif run.is_whole_fire:
            self._expand(run, at)
        elif (line := self._pools.get(run.model.pool_id)) is not None:
            line.waiting[run.id] = run
        else:
            self._executors[run.model.executor_id].queue.add(run)

    def _discard(self, run: ForecastRun) -> None:
        """It waits for no slot any longer."""
        self._executors[run.model.executor_id].queue.discard(run)
        if (line := self._pools.get(run.model.pool_id)) is not None:
            line.waiting.pop(run.id, None)

    def _skip(self, run: ForecastRun, at: int, reason: str) -> None:
        model = run.model
        if run.phase is RunPhase.PARKED:
            model.parked.remove(run)
        self._discard(run)
        run.phase = RunPhase.ENDED
        if run.stands_in_line:
            model.leaves(run)
        if run.fire is None:
            self._tally.skip(model.id, at, reason)
        self._ends(run, RunState.SKIPPED, at)

    def _expand(self, fire: ForecastRun, at: int) -> None:
        """A whole fire becomes its shards; where no node takes runs of the job it waits."""
        model = fire.model
        slots = self._executors[model.executor_id].slots
        pinned: Sequence[int | None] = [None] * model.config.routing.shards
        if fire.pinned_node_id is not None:
            pinned = [fire.pinned_node_id]
        elif model.config.routing.record.split is Split.PER_NODE:
            pinned = slots.matching(model)
        if not pinned:
            return
        fire.phase, fire.started_at = RunPhase.LIVE, None
        fire.parts_left = len(pinned)
        if fire.stands_in_line:
            model.lives(fire)
        for part, node_id in enumerate(pinned):
            shard = ForecastRun(
                model,
                id=next(self._ids),
                scheduled_at=fire.scheduled_at,
                due_at=at,
                priority=fire.priority,
                origin=fire.origin,
                fire=fire,
                part=part,
                pinned_node_id=node_id,
            )
            shard.first_due_at, shard.expires_at = fire.first_due_at, fire.expires_at
            fire.parts.append(shard)
            self._due(shard, at)

    # --- started ---------------------------------------------------------------------------------

    def _try_to_start(self, run: ForecastRun, at: int) -> bool:
        """Whether it waits for its slot no longer, be it that it is parked or skipped."""
        model = run.model
        if run.stands_in_line and model.verdict(run) is not Verdict.START:
            self._decide(run, at)
            return True
        node_id = self._executors[model.executor_id].slots.place(run)
        if node_id is None:
            return False
        self._start(run, node_id, at)
        return True

    def _start(self, run: ForecastRun, node_id: int | None, at: int) -> None:
        model = run.model
        self._discard(run)
        run.tries += 1
        run.phase, run.node_id = RunPhase.LIVE, node_id
        if run.stands_in_line:
            model.lives(run)
        if node_id is not None:
            self._busy += 1
            self._take_of_pool(run)
        if run.tries == 1:
            fire = run if run.fire is None else run.fire
            is_first = fire.started_at is None
            fire.started_at = run.started_at = at
            self._tally.starts(model.id, due_at=run.first_due_at, at=at, is_first=is_first)
        if self._journal is not None:
            self._journal.starts(run, at)
        run.ends_at = at + self._lasts(run)
        heappush(self._events, (run.ends_at, _END, run.id, run))

    def _lasts(self, run: ForecastRun) -> int:
        timeout_ms = run.model.config.timeout_ms
        duration_ms = max(run.drawn.duration_ms, 1)
        return duration_ms if timeout_ms is None else min(duration_ms, timeout_ms)

    def _take_of_pool(self, run: ForecastRun) -> None:
        if (line := self._pools.get(run.model.pool_id)) is not None:
            line.in_use += slots_taken(run.model.pool_slots, line.slots)

    # --- ended ---------------------------------------------------------------------------------

    def _attempt_ends(self, run: ForecastRun, at: int) -> None:
        if run.phase is not RunPhase.LIVE or run.ends_at != at:
            return  # it was stopped before
        drawn, policy = run.drawn, run.model.config.retry
        timeout_ms = run.model.config.timeout_ms
        state = drawn.state
        if timeout_ms is not None and drawn.duration_ms > timeout_ms:
            state = RunState.TIMED_OUT
        elif state not in FAILURES and run.tries < drawn.tries:
            state = RunState.FAILED
        tries_again = (
            state in FAILURES and run.tries <= policy.retries and policy.tries_again_after(state)
        )
        self._give_back(run, at)
        if tries_again:
            run.phase = RunPhase.COMING
            run.due_at = at + policy.delay_after(run.tries, run.id)
            self._comes(run)
        else:
            run.phase = RunPhase.ENDED
        self._unpark(run, at)
        if not tries_again:
            self._ends(run, state, at)

    def _stop(self, run: ForecastRun, at: int) -> None:
        """A live run is asked to end for a newer one."""
        if run.phase is not RunPhase.LIVE:
            return
        for part in run.parts:
            self._stop(part, at)
            if part.phase in (RunPhase.READY, RunPhase.PARKED):
                self._skip(part, at, "cancelled")
        if run.phase is not RunPhase.LIVE:
            return  # it has ended with its last part
        self._give_back(run, at)
        run.phase = RunPhase.ENDED
        self._ends(run, RunState.CANCELLED, at)
        self._unpark(run, at)

    def _give_back(self, run: ForecastRun, at: int) -> None:
        model = run.model
        if run.stands_in_line:
            model.ends(run)
        if run.node_id is None:
            return
        if self._journal is not None:
            self._journal.releases(run, at)
        self._executors[model.executor_id].slots.release(model, run.node_id)
        run.node_id = None
        self._busy -= 1
        if (line := self._pools.get(model.pool_id)) is not None:
            line.in_use -= slots_taken(model.pool_slots, line.slots)

    def _unpark(self, ended: ForecastRun, at: int) -> None:
        """Runs that waited for this one are decided again, the oldest first."""
        if not ended.stands_in_line or not ended.model.parked:
            return
        lane = ended.lane
        parked = sorted(
            (run for run in ended.model.parked if run.lane == lane),
            key=lambda run: (run.scheduled_at, run.id),
        )
        for run in parked:
            if run.phase is RunPhase.PARKED and not self._decide(run, at) and run.model.is_serial:
                return

    def _ends(self, run: ForecastRun, state: RunState, at: int) -> None:
        """What follows from the end of a run."""
        fire = run.fire
        if fire is not None:
            fire.parts_left -= 1
            fire.parts_failed += state in FAILURES
            if fire.parts_left or fire.phase is not RunPhase.LIVE:
                return
            if fire.stands_in_line:
                fire.model.ends(fire)
            fire.phase = RunPhase.ENDED
            self._ends(fire, RunState.FAILED if fire.parts_failed else state, at)
            self._unpark(fire, at)
            return
        model = run.model
        if self._journal is not None:
            self._journal.ends(run, state, at)
        if state in FAILURES:
            self._tally.fails(model.id)
        elif state is RunState.SUCCEEDED:
            self._tally.successes[model.id].append(at)
        for link in model.config.children:
            child = self._models.get(link.job_id)
            if child is not None and follows(link, state):
                asked = ForecastRun(
                    child,
                    id=next(self._ids),
                    scheduled_at=at,
                    due_at=at,
                    priority=child.config.priority,
                    origin=Origin.CHILD,
                )
                if self._journal is not None:
                    self._journal.follows(asked, run)
                self._comes(asked)
        if run.trigger is not None and run.trigger.spec.follows_runs:
            self._arm(model, run.trigger, at)

    def _arm(self, model: JobModel, trigger: ForecastTrigger, at: int) -> None:
        """The end of a run says when a fixed delay fires next."""
        is_paused = model.executor_id in self._situation.paused
        found = schedule_of(trigger, self._calendars)
        if model.job.paused or trigger.paused or is_paused or found is None:
            return
        fires = self._fires.get(trigger.id, 0)
        due_at = next_after_end(trigger.spec, ended_at=at, fires=fires, calendar=found[1])
        if due_at is not None and due_at < self._end:
            priority = trigger.spec.priority or model.config.priority
            self._tally.fires(model.id, due_at)
            self._comes(self._fired(model, trigger, due_at, due_at, priority))
