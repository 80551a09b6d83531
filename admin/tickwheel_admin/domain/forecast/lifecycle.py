"""What becomes of a run in a forecast: due, decided by the blocking strategy, started, ended."""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel_admin.domain.forecast.planned import schedule_of
from tickwheel_admin.domain.forecast.runs import ForecastRun, JobModel, RunPhase
from tickwheel_admin.domain.forecast.situation import ForecastTrigger
from tickwheel_admin.domain.forecast.workflows.steps import WorkflowSteps
from tickwheel_admin.domain.forecast.world import World
from tickwheel_admin.domain.jobs.children import follows
from tickwheel_admin.domain.planning.plan import next_after_end
from tickwheel_admin.domain.pools.pool import slots_taken
from tickwheel_admin.domain.routing.strategy import Split
from tickwheel_admin.domain.runs.blocking import Blocking, Verdict
from tickwheel_admin.domain.runs.run import FAILURES, Origin, RunState

_BY_OTHERS = (Origin.CHILD, Origin.STEP)


class Lifecycle:
    """Moves runs from state to state."""

    def __init__(self, world: World, *, seed: int) -> None:
        self._world = world
        self.workflows = WorkflowSteps(world, self, seed=seed, assumed_ms=world.assumed_ms)

    def goes_on(self, run: ForecastRun, started_at: int, node_id: int) -> None:
        """It runs when the forecast begins: as long as a run that took at least so long."""
        world, model = self._world, run.model
        self._is_live(run, started_at)
        run.draw_at_least(world.at - started_at)
        run.node_id = world.executors[model.executor_id].slots.take(model, node_id)
        world.busy += 1
        self._take_of_pool(run, was=world.situation.pools_taken_of.get(model.pool_id))
        if world.journal is not None:
            world.journal.starts(run, started_at)
        run.ends_at = max(world.at, started_at + self._lasts(run))
        world.ends(run)

    def workflow_goes_on(self, run: ForecastRun, started_at: int) -> None:
        """The same of a workflow; what its steps do is told later."""
        self._is_live(run, started_at)
        if self._world.journal is not None:
            self._world.journal.starts(run, started_at)

    def _is_live(self, run: ForecastRun, started_at: int) -> None:
        run.tries = max(run.tries, 1)
        run.phase, run.started_at = RunPhase.LIVE, started_at
        if run.stands_in_line:
            run.model.lives(run)

    def fired(
        self, model: JobModel, trigger: ForecastTrigger, at: int, due_at: int, priority: int
    ) -> ForecastRun:
        """A trigger's run that will be due."""
        fires = self._world.fires
        fires[trigger.id] = fires.get(trigger.id, 0) + 1
        return ForecastRun(
            model,
            id=self._world.new_id(),
            scheduled_at=at,
            due_at=due_at,
            priority=priority,
            trigger=trigger,
        )

    # --- due, and decided ----------------------------------------------------------------------

    def due(self, run: ForecastRun, at: int) -> None:
        """It is due, for the first time or for another try."""
        if run.phase is RunPhase.ENDED:
            return  # its workflow was stopped
        if run.tries == 0:
            if run.fire is None:
                self._world.tally.due(run.model.id, is_child=run.origin in _BY_OTHERS)
                self._world.left -= 1
                if self._world.journal is not None:
                    self._world.journal.due(run)
            if run.expires_at is not None:
                self._world.expires(run, max(at, run.expires_at + 1))
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
            if self._world.journal is not None:
                self._world.journal.parks(run)
            self._discard(run)
            run.phase = RunPhase.PARKED
            model.parked.append(run)
            model.waits(run)
        if model.policy.strategy is Blocking.COVER_EARLY:
            for covered in model.covered_in(run.lane):
                self.stop(covered, at)
        return False

    def _may_start(self, run: ForecastRun, at: int) -> None:
        if run.model.is_workflow:
            self._start_workflow(run, at)
        elif run.is_whole_fire:
            self._expand(run, at)
        elif (line := self._world.pools.get(run.model.pool_id)) is not None:
            line.waiting[run.id] = run
        else:
            self._world.executors[run.model.executor_id].queue.add(run)

    def _discard(self, run: ForecastRun) -> None:
        """It waits for no slot any longer."""
        self._world.executors[run.model.executor_id].queue.discard(run)
        if (line := self._world.pools.get(run.model.pool_id)) is not None:
            line.waiting.pop(run.id, None)

    def expire(self, run: ForecastRun, at: int) -> None:
        """It is too late to start."""
        if run.phase in (RunPhase.READY, RunPhase.PARKED) and run.tries == 0:
            self._skip(run, at, "expired")

    def _skip(self, run: ForecastRun, at: int, reason: str) -> None:
        model = run.model
        if run.phase is RunPhase.PARKED:
            model.parked.remove(run)
        self._discard(run)
        run.phase = RunPhase.ENDED
        if run.stands_in_line:
            model.leaves(run)
        if run.fire is None:
            self._world.tally.skip(model.id, at, reason)
        self._ends(run, RunState.SKIPPED, at)

    def _expand(self, fire: ForecastRun, at: int) -> None:
        """A whole fire becomes its shards; where no node takes runs of the job it waits."""
        model = fire.model
        slots = self._world.executors[model.executor_id].slots
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
                id=self._world.new_id(),
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
            self.due(shard, at)

    # --- started ---------------------------------------------------------------------------------

    def try_to_start(self, run: ForecastRun, at: int) -> bool:
        """Whether it waits for its slot no longer, be it that it is parked or skipped."""
        model = run.model
        if run.stands_in_line and model.verdict(run) is not Verdict.START:
            self._decide(run, at)
            return True
        node_id = self._world.executors[model.executor_id].slots.place(run)
        if node_id is None:
            return False
        self._start(run, node_id, at)
        return True

    def _start_workflow(self, run: ForecastRun, at: int) -> None:
        """It takes no slot, and ends with its steps."""
        run.tries += 1
        run.phase = RunPhase.LIVE
        if run.stands_in_line:
            run.model.lives(run)
        self._is_started(run, at)
        self.workflows.begin(run, at)

    def _is_started(self, run: ForecastRun, at: int) -> None:
        if run.tries == 1:
            fire = run if run.fire is None else run.fire
            is_first = fire.started_at is None
            fire.started_at = run.started_at = at
            job_id = run.model.id
            self._world.tally.starts(job_id, due_at=run.first_due_at, at=at, is_first=is_first)
        if self._world.journal is not None:
            self._world.journal.starts(run, at)

    def _start(self, run: ForecastRun, node_id: int, at: int) -> None:
        model = run.model
        self._discard(run)
        run.tries += 1
        run.phase, run.node_id = RunPhase.LIVE, node_id
        if run.stands_in_line:
            model.lives(run)
        self._world.busy += 1
        self._take_of_pool(run)
        self._is_started(run, at)
        run.ends_at = at + self._lasts(run)
        self._world.ends(run)

    def _lasts(self, run: ForecastRun) -> int:
        timeout_ms = run.model.config.timeout_ms
        duration_ms = max(run.drawn.duration_ms, 1)
        return duration_ms if timeout_ms is None else min(duration_ms, timeout_ms)

    def _take_of_pool(self, run: ForecastRun, *, was: int | None = None) -> None:
        """`was`: the slots of the pool when the run started, if they are others now."""
        if (line := self._world.pools.get(run.model.pool_id)) is not None:
            run.of_pool = slots_taken(run.model.pool_slots, line.slots if was is None else was)
            line.in_use += run.of_pool

    # --- ended ---------------------------------------------------------------------------------

    def attempt_ends(self, run: ForecastRun, at: int) -> None:
        """An attempt has come to its end, if it was not stopped before."""
        if run.phase is not RunPhase.LIVE or run.ends_at != at:
            return
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
            self._world.comes(run)
        else:
            run.phase = RunPhase.ENDED
        self._unpark(run, at)
        if not tries_again:
            self._ends(run, state, at)

    def stop(self, run: ForecastRun, at: int) -> None:
        """A run is to end: a newer one takes its place, or its workflow ends."""
        if run.phase in (RunPhase.READY, RunPhase.PARKED):
            self._skip(run, at, "cancelled")
        elif run.phase is RunPhase.COMING:
            run.phase = RunPhase.ENDED
            self._ends(run, RunState.CANCELLED, at)
        elif (flow := self.workflows.flow_of(run)) is not None:
            self.workflows.stop(flow, RunState.CANCELLED, at)
        elif run.phase is RunPhase.LIVE:
            self._stop_live(run, at)

    def _stop_live(self, run: ForecastRun, at: int) -> None:
        for part in run.parts:
            if part.phase is not RunPhase.COMING:
                self.stop(part, at)
        if run.phase is not RunPhase.LIVE:
            return  # it has ended with its last part
        self._give_back(run, at)
        run.phase = RunPhase.ENDED
        self._ends(run, RunState.CANCELLED, at)
        self._unpark(run, at)

    def workflow_ends(self, run: ForecastRun, state: RunState, at: int) -> None:
        """The last step of a workflow has ended."""
        self._give_back(run, at)
        run.phase = RunPhase.ENDED
        self._world.touched.add(run.model.executor_id)
        self._unpark(run, at)
        self._ends(run, state, at)

    def _give_back(self, run: ForecastRun, at: int) -> None:
        model = run.model
        if run.stands_in_line:
            model.ends(run)
        if run.node_id is None:
            return
        if self._world.journal is not None:
            self._world.journal.releases(run, at)
        self._world.executors[model.executor_id].slots.release(model, run.node_id)
        run.node_id = None
        self._world.busy -= 1
        touched = self._world.touched
        if model.pool_id:
            touched.update(self._world.executors)
        else:
            touched.add(model.executor_id)
        if (line := self._world.pools.get(model.pool_id)) is not None:
            line.in_use -= run.of_pool

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
        if self._world.journal is not None:
            self._world.journal.ends(run, state, at)
        if state in FAILURES:
            self._world.tally.fails(model.id)
        elif state is RunState.SUCCEEDED:
            self._world.tally.successes[model.id].append(at)
        place = self.workflows.place_of(run)
        if place is not None:
            self.workflows.run_ended(run, place, state, at)
        for link in model.config.children:
            child = self._world.models.get(link.job_id)
            if child is not None and follows(link, state):
                asked = ForecastRun(
                    child,
                    id=self._world.new_id(),
                    scheduled_at=at,
                    due_at=at,
                    priority=child.config.priority,
                    origin=Origin.CHILD,
                )
                if self._world.journal is not None:
                    self._world.journal.follows(asked, run)
                self._world.comes(asked)
        if run.trigger is not None and run.trigger.spec.follows_runs:
            self._arm(model, run.trigger, at)

    def _arm(self, model: JobModel, trigger: ForecastTrigger, at: int) -> None:
        """The end of a run says when a fixed delay fires next."""
        is_paused = model.executor_id in self._world.situation.paused
        found = schedule_of(trigger, self._world.calendars)
        if model.job.paused or trigger.paused or is_paused or found is None:
            return
        fires = self._world.fires.get(trigger.id, 0)
        due_at = next_after_end(trigger.spec, ended_at=at, fires=fires, calendar=found[1])
        if due_at is not None and due_at < self._world.end:
            priority = trigger.spec.priority or model.config.priority
            self._world.tally.fires(model.id, due_at)
            self._world.comes(self.fired(model, trigger, due_at, due_at, priority))
