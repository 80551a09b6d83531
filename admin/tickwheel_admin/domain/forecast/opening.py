"""How a forecast begins: with what is queued or runs, and with the fires that are planned."""

from __future__ import annotations

from tickwheel_admin.domain.forecast.lifecycle import Lifecycle
from tickwheel_admin.domain.forecast.planned import PlannedFires
from tickwheel_admin.domain.forecast.runs import ForecastRun, JobModel
from tickwheel_admin.domain.forecast.situation import ForecastTrigger, OpenRun
from tickwheel_admin.domain.forecast.world import DUE, Event, World


class Opening:
    """Fills a world."""

    def __init__(self, world: World, lifecycle: Lifecycle, planned: PlannedFires) -> None:
        """Begin with an empty one.

        Args:
            planned: what was computed for another forecast of the same triggers.
        """
        self._world = world
        self._lifecycle = lifecycle
        self._planned = planned

    def open_runs(self) -> None:
        """Those that have not ended: workflows first, so that their steps find them."""
        opened: dict[int, tuple[OpenRun, ForecastRun]] = {}
        for open_run in self._world.situation.open_runs:
            if open_run.job_id in self._world.models:
                opened[open_run.id] = open_run, self._run_of(open_run)
        started = {run_id for run_id, (each, run) in opened.items() if _has_started(each, run)}
        for run_id in sorted(started):  # a workflow within another has the greater id
            open_run, run = opened[run_id]
            self._attach(open_run, run, opened)
            self._lifecycle.workflow_goes_on(run, open_run.started_at or self._world.at)
            self._lifecycle.workflows.opened(run, open_run.started_at or self._world.at)
        for run_id, (open_run, run) in opened.items():
            if run_id in started:
                continue
            self._attach(open_run, run, opened)
            if open_run.node_id is None:
                self._world.comes(run)
            else:
                started_at = open_run.started_at or self._world.at
                self._lifecycle.goes_on(run, started_at, open_run.node_id)
        for run_id in sorted(started, reverse=True):
            open_run, run = opened[run_id]
            flow = self._lifecycle.workflows.flow_of(run)
            if flow is not None:
                self._lifecycle.workflows.go_on(flow, open_run.steps, self._world.at)

    def _run_of(self, open_run: OpenRun) -> ForecastRun:
        world, model = self._world, self._world.models[open_run.job_id]
        run = ForecastRun(
            model,
            id=world.new_id(),
            scheduled_at=open_run.scheduled_at,
            due_at=max(world.at, min(open_run.due_at, world.end)),
            priority=open_run.priority,
            origin=open_run.origin,
            trigger=next((t for t in model.job.triggers if t.id == open_run.trigger_id), None),
            pinned_node_id=open_run.pinned_node_id,
        )
        run.first_due_at, run.tries = open_run.first_due_at, open_run.tries
        run.expires_at = open_run.expires_at
        return run

    def _attach(
        self, open_run: OpenRun, run: ForecastRun, opened: dict[int, tuple[OpenRun, ForecastRun]]
    ) -> None:
        """Write it down; what is of a step has its workflow."""
        found = opened.get(open_run.parent_run_id or 0)
        workflow = None if found is None else found[1]
        steps = self._lifecycle.workflows
        flow = None if workflow is None else steps.flow_of(workflow)
        if flow is not None and open_run.step is not None:
            steps.attach(flow, run, open_run.step, is_item=open_run.is_item)
        if self._world.journal is not None:
            is_step = steps.place_of(run) is not None
            self._world.journal.opens(run, open_run.id, workflow=workflow if is_step else None)

    def fires(self) -> list[Event]:
        """Those that are planned, the last one first."""
        ahead: list[Event] = []
        for job in self._world.situation.jobs:
            if not job.paused:
                for trigger in job.triggers:
                    self._plan(self._world.models[job.id], trigger, ahead)
        ahead.sort(reverse=True)
        # More than can be looked at: those that come first.
        del ahead[: max(0, len(ahead) - self._world.left - 1)]
        for _, _, _, run in ahead:
            self._world.tally.fires(run.model.id, run.scheduled_at)
        return ahead

    def _plan(self, model: JobModel, trigger: ForecastTrigger, ahead: list[Event]) -> None:
        if trigger.paused:
            return
        world = self._world
        priority = model.config.priority if trigger.spec.priority is None else trigger.spec.priority
        fires = self._planned.of(
            trigger,
            world.calendars,
            now=world.at,
            end=world.end - 1,
            paused_at=world.situation.paused.get(model.executor_id),
            limit=world.left + 1,
        )
        for fire in fires:
            run = self._lifecycle.fired(model, trigger, fire.scheduled_at, fire.due_at, priority)
            ahead.append((run.due_at, DUE, run.id, run))


def _has_started(open_run: OpenRun, run: ForecastRun) -> bool:
    return run.model.is_workflow and open_run.started_at is not None
