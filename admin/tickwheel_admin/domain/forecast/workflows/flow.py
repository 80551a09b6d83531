"""Runs of workflows while a forecast goes on: where each of their steps stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tickwheel_admin.domain.fields import instant_from_iso
from tickwheel_admin.domain.forecast.draws import drawn
from tickwheel_admin.domain.forecast.runs import ForecastRun, JobModel
from tickwheel_admin.domain.forecast.situation import MeasuredStep
from tickwheel_admin.domain.runs.run import RunState
from tickwheel_admin.domain.workflows.graph import MAX_ITEMS, Step, Workflow
from tickwheel_shared.workflows.decide import unhandled_failures
from tickwheel_shared.workflows.parts import ENDED, StepState
from tickwheel_shared.workflows.values import BadValue, items_of, names_values


class StepPlace(NamedTuple):
    """What the run of a step belongs to."""

    flow: Flow
    step: int  # its index in the graph
    is_item: bool


@dataclass(slots=True)
class Stand:
    """One step of one run."""

    state: StepState = StepState.WAITING
    cause: ForecastRun | None = None  # the run whose end let it begin, or that ended it
    own_run: bool = False  # its own run has not ended
    items: int | None = None
    next_item: int = 0
    live_items: int = 0
    failed_items: int = 0
    wakes_at: int | None = None  # it ends then, with `wakes_as`
    wakes_as: StepState = StepState.SUCCEEDED


class GraphModel:
    """A graph, and what is looked up in it again and again."""

    def __init__(self, model: JobModel, graph: Workflow, models: Mapping[int, JobModel]) -> None:
        self.graph = graph
        self.steps: Sequence[Step] = graph.steps
        self.followers: list[list[int]] = [[] for _ in graph.steps]
        for index, step in enumerate(graph.steps):
            for need in step.needs:
                self.followers[graph.index_of[need.step]].append(index)
        self.models = [self._model_of(step, models) for step in graph.steps]
        self._written = [_written_items(step) for step in graph.steps]
        self._graphs = model.job.graphs
        self._key = model.id

    def _model_of(self, step: Step, models: Mapping[int, JobModel]) -> JobModel | None:
        """The job of a step; None: it has none, or one that is not part of the situation."""
        try:
            found = self.graph.job_of(step.key)
        except KeyError:  # the step is not saved yet
            return None
        return None if found is None else models.get(found[0])

    def measured(self, key: str, *, scheduled_at: int, seed: int) -> MeasuredStep | None:
        """How a step goes: as in the run of the past that is drawn for the whole workflow.

        Where that did not come to the step, as in another that did. None: nothing is known.
        """
        count = len(self._graphs)
        if not count:
            return None
        first = drawn(seed, self._key, scheduled_at) % count
        for place in range(count):
            found = self._graphs[(first + place) % count].get(key)
            if found is not None:
                return found
        return None

    def items_of(self, index: int, measured: MeasuredStep | None) -> int:
        """How many items a list has: as written, else as measured, else one."""
        written = self._written[index]
        if written is not None:
            return written
        known = None if measured is None else measured.items
        return 1 if known is None else known


class Flow:
    """A workflow's run that has started and has not ended."""

    def __init__(self, run: ForecastRun, model: GraphModel, *, depth: int) -> None:
        """All of its steps wait.

        Args:
            depth: how many workflows it is within, itself counted.
        """
        self.run = run
        self.model = model
        self.depth = depth
        self.states = [StepState.WAITING] * len(model.steps)
        self.stands = [Stand() for _ in model.steps]
        self.left = len(model.steps)
        self.live: dict[int, ForecastRun] = {}
        self.stopped_as: RunState | None = None  # it is to end so
        self.is_cut = False  # something did not run, or not to its end, because it was to end
        self.times_out_at: int | None = None

    def set(self, index: int, state: StepState) -> None:
        """A step comes to another state."""
        if state in ENDED and self.states[index] not in ENDED:
            self.left -= 1
        self.states[index] = self.stands[index].state = state

    def end_state(self) -> RunState:
        """How it ends, once all steps have; as `domain.workflows.ends.end_of`."""
        failed = bool(unhandled_failures(self.model.graph, self.stands))
        if self.stopped_as is not None and (failed or self.is_cut):
            return self.stopped_as
        return RunState.FAILED if failed else RunState.SUCCEEDED


def instant_of(text: str) -> int | None:
    """The instant that a wait names; None: a value that is not known before it begins."""
    if names_values(text):
        return None
    try:
        return instant_from_iso(text)
    except ValueError:
        return None


def _written_items(step: Step) -> int | None:
    """How many items the list of a step has; None: it has no list, or one of results."""
    each = step.for_each
    if each is None or names_values(each.items):
        return None
    try:
        return len(items_of(each.items, {}, most=MAX_ITEMS))
    except BadValue:
        return 0  # its runs will find that, too
