"""What follows in a workflow when a step ends, by the rules of the engine.

The graph says which steps begin and which are skipped. What it does not say is as in a run of the
past: which conditions hold, how many items a list has, how long an approval takes. Where nothing
was measured a condition holds, a list has one item, and an approval is given at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tickwheel_admin.domain.forecast.draws import BEYOND_ALL
from tickwheel_admin.domain.forecast.runs import ForecastRun, JobModel
from tickwheel_admin.domain.forecast.situation import MeasuredStep, OpenStep
from tickwheel_admin.domain.forecast.workflows.flow import (
    Flow,
    GraphModel,
    Stand,
    StepPlace,
    instant_of,
)
from tickwheel_admin.domain.forecast.world import World
from tickwheel_admin.domain.planning.fires import LAST_PRIORITY
from tickwheel_admin.domain.runs.run import Origin, RunState
from tickwheel_admin.domain.workflows.book import MOST_LIVE_ITEMS
from tickwheel_admin.domain.workflows.graph import MAX_DEPTH, Approval, Silence, Wait
from tickwheel_shared.workflows.decide import needs_hold
from tickwheel_shared.workflows.parts import ENDED, StepState


class WorkflowEnds(Protocol):
    """Ends runs."""

    def workflow_ends(self, run: ForecastRun, state: RunState, at: int) -> None:
        """The last step of a workflow has ended."""

    def stop(self, run: ForecastRun, at: int) -> None:
        """A run is to end, whatever it does."""


class WorkflowSteps:
    """The steps of all workflows in one forecast."""

    def __init__(self, world: World, ends: WorkflowEnds, *, seed: int, assumed_ms: int) -> None:
        """Begin with no run.

        Args:
            assumed_ms: how long a step takes whose job is not known here.
        """
        self._world = world
        self._ends = ends
        self._seed = seed
        self._assumed_ms = assumed_ms
        self._graphs: dict[int, GraphModel] = {}
        self._flows: dict[ForecastRun, Flow] = {}  # of workflows that have not ended
        self._places: dict[ForecastRun, StepPlace] = {}  # of runs of steps

    def flow_of(self, run: ForecastRun) -> Flow | None:
        """Of a workflow that has started and has not ended."""
        return self._flows.get(run)

    def place_of(self, run: ForecastRun) -> StepPlace | None:
        """Of the run of a step."""
        return self._places.get(run)

    # --- the run of a workflow -------------------------------------------------------------------

    def opened(self, run: ForecastRun, started_at: int) -> Flow:
        """A workflow has started; none of its steps has begun."""
        place = self._places.get(run)
        depth = 1 if place is None else place.flow.depth + 1
        flow = self._flows[run] = Flow(run, self._graph_of(run.model), depth=depth)
        timeout_ms = run.model.config.timeout_ms
        if timeout_ms is not None:
            flow.times_out_at = started_at + timeout_ms
            self._world.wakes(run, flow.times_out_at)
        return flow

    def begin(self, run: ForecastRun, at: int) -> None:
        """A workflow starts: so do the steps that wait for none."""
        flow = self.opened(run, at)
        self._go_on(flow, range(len(flow.stands)), None, at)

    def go_on(self, flow: Flow, steps: Iterable[OpenStep], at: int) -> None:
        """A workflow that had started before the forecast, once its open runs are attached."""
        index_of = flow.model.graph.index_of
        for each in steps:
            index = index_of.get(each.key)
            if index is None:  # no longer in its graph
                continue
            flow.set(index, each.state)
            stand = flow.stands[index]
            if each.state is StepState.READY:
                self._waits_on(flow, index, each, at)
            elif each.state is StepState.RUNNING and each.items is not None:
                stand.items, stand.next_item = each.items, each.next_item
                stand.failed_items = each.items_failed
            elif each.state is StepState.RUNNING and not stand.own_run:
                self._ends_at(flow, index, at + self._assumed_ms, StepState.SUCCEEDED)
        for index, stand in enumerate(flow.stands):
            if stand.state is StepState.RUNNING and stand.items is not None:
                ended = self._begin_items(flow, index, at)
                if ended is not None:
                    flow.set(index, ended)
        self._go_on(flow, range(len(flow.stands)), None, at)

    def attach(self, flow: Flow, run: ForecastRun, key: str, *, is_item: bool) -> None:
        """The run of a step has not ended when the forecast begins."""
        index = flow.model.graph.index_of.get(key)
        if index is None:
            return
        stand = flow.stands[index]
        self._places[run] = StepPlace(flow, index, is_item)
        flow.live[run.id] = run
        if is_item:
            stand.live_items += 1
        else:
            stand.own_run = True

    def stop(self, flow: Flow, state: RunState, at: int) -> None:
        """A workflow is to end: nothing begins any more, and its runs end."""
        if flow.stopped_as is not None or flow.left == 0:
            return
        flow.stopped_as = state
        for index, stand in enumerate(flow.stands):
            is_idle = stand.state is StepState.WAITING or stand.wakes_at is not None
            if is_idle and stand.state not in ENDED:
                flow.set(index, StepState.SKIPPED)
                flow.is_cut = True
        for run in list(flow.live.values()):
            flow.is_cut = True
            self._ends.stop(run, at)
        self._end_if_done(flow, None, at)

    # --- what happens ----------------------------------------------------------------------------

    def run_ended(self, run: ForecastRun, place: StepPlace, state: RunState, at: int) -> None:
        """The run of a step, or of an item, has ended."""
        flow, index, is_item = place
        stand = flow.stands[index]
        if flow.live.pop(run.id, None) is None or stand.state is not StepState.RUNNING:
            return
        succeeded = state is RunState.SUCCEEDED
        if is_item:
            stand.live_items -= 1
            stand.failed_items += not succeeded
        else:
            stand.own_run = False
            items = self._spawned(flow, index) if succeeded else None
            if items is None:
                ended = StepState.SUCCEEDED if succeeded else StepState.FAILED
                self._step_ended(flow, index, ended, run, at)
                return
            stand.items = items
        if stand.own_run:
            return
        settled = self._begin_items(flow, index, at)
        if settled is not None:
            self._step_ended(flow, index, settled, run, at)

    def wakes(self, run: ForecastRun, at: int) -> None:
        """An instant has come that a workflow waited for."""
        flow = self._flows.get(run)
        if flow is None or flow.left == 0:
            return
        if flow.times_out_at is not None and flow.times_out_at <= at:
            self.stop(flow, RunState.TIMED_OUT, at)
            return
        for index, stand in enumerate(flow.stands):
            if stand.wakes_at is not None and stand.wakes_at <= at and stand.state not in ENDED:
                stand.wakes_at = None
                self._step_ended(flow, index, stand.wakes_as, stand.cause, at)

    # --- steps -----------------------------------------------------------------------------------

    def _step_ended(
        self, flow: Flow, index: int, state: StepState, cause: ForecastRun | None, at: int
    ) -> None:
        flow.set(index, state)
        self._go_on(flow, flow.model.followers[index], cause, at)

    def _go_on(
        self, flow: Flow, looking: Iterable[int], cause: ForecastRun | None, at: int
    ) -> None:
        """Begin or skip those of these steps that can, and what follows from that at once."""
        model = flow.model
        todo = list(looking)
        for index in todo:  # grows
            if flow.states[index] is not StepState.WAITING or flow.stopped_as is not None:
                continue
            holds = needs_hold(model.graph, model.steps[index], flow.states)
            if holds is None:
                continue
            ended: StepState | None = StepState.SKIPPED
            if holds:
                flow.stands[index].cause = cause
                ended = self._begin_step(flow, index, at)
            if ended is not None:
                flow.set(index, ended)
                todo += model.followers[index]
        self._end_if_done(flow, cause, at)

    def _end_if_done(self, flow: Flow, cause: ForecastRun | None, at: int) -> None:
        if flow.left > 0 or self._flows.pop(flow.run, None) is None:
            return
        if self._world.journal is not None:
            self._world.journal.ends_with(flow.run, cause)
        self._ends.workflow_ends(flow.run, flow.end_state(), at)

    def _begin_step(self, flow: Flow, index: int, at: int) -> StepState | None:
        """How it ends at once; None: it does not."""
        step, model = flow.model.steps[index], flow.model.models[index]
        measured = self._measured(flow, index)
        if step.when is not None and measured is not None and not measured.wanted:
            return StepState.SKIPPED
        flow.set(index, StepState.RUNNING)
        match step.body:
            case Approval():
                return self._asks(flow, index, step.body, measured, at)
            case Wait():
                return self._waits(flow, index, step.body, measured, at)
        if model is not None and model.is_workflow and flow.depth >= MAX_DEPTH:
            return StepState.FAILED
        if step.for_each is not None:
            flow.stands[index].items = flow.model.items_of(index, measured)
            return self._begin_items(flow, index, at)
        if model is None:
            return self._ends_at(flow, index, at + self._assumed_ms, StepState.SUCCEEDED)
        flow.stands[index].own_run = True
        self._begin_run(flow, index, model, at, item=None)
        return None

    def _asks(
        self, flow: Flow, index: int, body: Approval, measured: MeasuredStep | None, at: int
    ) -> StepState | None:
        if measured is not None:
            state = StepState.SUCCEEDED if measured.succeeded else StepState.FAILED
            return self._ends_at(flow, index, at + measured.waited_ms, state)
        return StepState.SUCCEEDED

    def _waits(
        self, flow: Flow, index: int, body: Wait, measured: MeasuredStep | None, at: int
    ) -> StepState | None:
        until = None if body.until is None else instant_of(body.until)
        if until is None and body.until is not None:
            until = at + (0 if measured is None else measured.waited_ms)
        if until is None:
            until = at + (body.duration_ms or 0)
        return self._ends_at(flow, index, until, StepState.SUCCEEDED)

    def _waits_on(self, flow: Flow, index: int, each: OpenStep, at: int) -> None:
        """A step waits for a person or an instant when the forecast begins."""
        body = flow.model.steps[index].body
        measured = self._measured(flow, index)
        if isinstance(body, Approval):
            waited = at - each.since
            usual = 0 if measured is None else measured.waited_ms
            until = at if measured is None else each.since + usual
            if measured is not None and usual <= waited:  # it takes longer than what was measured
                until = at + waited // BEYOND_ALL
            approved = measured is None or measured.succeeded
            if each.due_at is not None and each.due_at <= until:
                until, approved = each.due_at, body.silence is Silence.APPROVE
            state = StepState.SUCCEEDED if approved else StepState.FAILED
        elif isinstance(body, Wait):
            until, state = each.due_at or at, StepState.SUCCEEDED
        else:  # a breakpoint, which somebody lets go on at once
            flow.set(index, StepState.WAITING)
            return
        self._ends_at(flow, index, max(until, at + 1), state)

    def _ends_at(self, flow: Flow, index: int, until: int, state: StepState) -> StepState | None:
        """The step ends by itself at an instant; its end, if that has come."""
        stand = flow.stands[index]
        if until <= self._world.at:
            return state
        stand.wakes_at, stand.wakes_as = until, state
        self._world.wakes(flow.run, until)
        return None

    # --- items -----------------------------------------------------------------------------------

    def _begin_items(self, flow: Flow, index: int, at: int) -> StepState | None:
        """Begin as many items as there is room for; how the step ends, if none goes on."""
        stand, model = flow.stands[index], flow.model.models[index]
        each, items = flow.model.graph.items_of(index), stand.items or 0
        if model is None:  # all of them take as long as one
            return self._ends_at(
                flow, index, at + (self._assumed_ms if items else 0), StepState.SUCCEEDED
            )
        most = each.max_parallel or MOST_LIVE_ITEMS
        is_tolerated = each.tolerance.allows(stand.failed_items, items)
        while (
            is_tolerated
            and flow.stopped_as is None
            and stand.next_item < items
            and stand.live_items < most
        ):
            stand.live_items += 1
            self._begin_run(flow, index, model, at, item=stand.next_item)
            stand.next_item += 1
        if stand.live_items > 0:
            return None
        return _settled(stand, is_tolerated=is_tolerated, items=items)

    def _begin_run(
        self, flow: Flow, index: int, model: JobModel, at: int, *, item: int | None
    ) -> None:
        is_last = flow.run.priority == LAST_PRIORITY
        run = ForecastRun(
            model,
            id=self._world.new_id(),
            scheduled_at=at,
            due_at=at,
            priority=LAST_PRIORITY if is_last else model.config.priority,
            origin=Origin.STEP,
            # What is drawn for it: the same before and after a change that makes it begin later.
            chance=flow.run.chance + index,
            part=item or 0,
        )
        self._places[run] = StepPlace(flow, index, item is not None)
        flow.live[run.id] = run
        if self._world.journal is not None:
            place = (index, -1 if item is None else item)
            cause = flow.stands[index].cause
            self._world.journal.begins_step(run, flow.run, after=cause, place=place)
        self._world.comes(run)

    def _spawned(self, flow: Flow, index: int) -> int | None:
        """How many items the step's own run spawns; None: it does not."""
        measured = self._measured(flow, index)
        return None if measured is None else measured.items

    def _measured(self, flow: Flow, index: int) -> MeasuredStep | None:
        key = flow.model.steps[index].key
        return flow.model.measured(key, scheduled_at=flow.run.chance, seed=self._seed)

    def _graph_of(self, model: JobModel) -> GraphModel:
        found = self._graphs.get(model.id)
        if found is None:
            assert model.config.workflow is not None  # noqa: S101 - nothing else is asked for
            found = GraphModel(model, model.config.workflow, self._world.models)
            self._graphs[model.id] = found
        return found


def _settled(stand: Stand, *, is_tolerated: bool, items: int) -> StepState:
    """How a step ends of whose items none goes on."""
    if not is_tolerated or stand.next_item < items:
        return StepState.FAILED
    return StepState.SUCCEEDED
