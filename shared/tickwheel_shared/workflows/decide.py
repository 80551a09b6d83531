"""Which steps of a workflow's run go on. Nothing here reads or writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tickwheel_shared.workflows.parts import ENDED, NEEDS, STOPPED, Need, NeedOutcome, StepState


class GraphStep(Protocol):
    """A step, as far as it is looked at here."""

    @property
    def key(self) -> str:
        """Unique in its graph."""

    @property
    def needs(self) -> Sequence[Need]:
        """All of them must hold."""


class Graph(Protocol):
    """A workflow, as far as it is looked at here."""

    @property
    def steps(self) -> Sequence[GraphStep]:
        """In their order."""

    @property
    def index_of(self) -> Mapping[str, int]:
        """The index of each step by its key."""


class Status(Protocol):
    """Where a step stands."""

    @property
    def state(self) -> StepState:
        """Its state."""


@dataclass(frozen=True, slots=True)
class StepDecision:
    """What becomes of steps that wait, by index."""

    begin: tuple[int, ...]  # all that they need has come true
    skip: tuple[tuple[int, str], ...]  # with the reason


def decide(graph: Graph, steps: Sequence[Status], *, stopping: bool) -> StepDecision:
    """What to do now; a skip is passed on at once to those that it concerns.

    Args:
        steps: of the whole graph, by index.
        stopping: the workflow is to end: nothing begins, and what only waits is skipped.
    """
    states = [each.state for each in steps]
    if stopping:
        idle = (StepState.WAITING, StepState.READY)
        return StepDecision((), tuple((n, STOPPED) for n, s in enumerate(states) if s in idle))
    skipped: list[tuple[int, str]] = []
    begin: list[int] = []
    looking = [index for index, state in enumerate(states) if state is StepState.WAITING]
    while looking:
        found_one = False
        begin.clear()
        still: list[int] = []
        for index in looking:
            holds = needs_hold(graph, graph.steps[index], states)
            if holds is False:
                states[index] = StepState.SKIPPED
                skipped.append((index, NEEDS))
                found_one = True
                continue
            still.append(index)
            if holds:
                begin.append(index)
        if not found_one:
            break
        looking = still
    return StepDecision(tuple(begin), tuple(skipped))


def needs_hold(graph: Graph, step: GraphStep, states: Sequence[StepState]) -> bool | None:
    """Whether all that a step needs has come true; None: some of it may still.

    Args:
        states: of the whole graph, by index.
    """
    pending = False
    for need in step.needs:
        holds = _need_holds(need, states[graph.index_of[need.step]])
        if holds is False:
            return False
        pending = pending or holds is None
    return None if pending else True


def _need_holds(need: Need, state: StepState) -> bool | None:
    match state:
        case StepState.WAITING | StepState.READY | StepState.RUNNING:
            return None
        case StepState.SUCCEEDED:
            return need.outcome in (NeedOutcome.SUCCEEDED, NeedOutcome.ENDED)
        case StepState.FAILED:
            return need.outcome in (NeedOutcome.FAILED, NeedOutcome.ENDED)
        case StepState.SKIPPED:
            return need.outcome in (NeedOutcome.SKIPPED, NeedOutcome.ENDED)


def unhandled_failures(graph: Graph, steps: Sequence[Status]) -> list[str]:
    """Keys of the failed steps that no other step ran for, in the order of the graph.

    A step that needs one `ended`, such as one that cleans up, runs in any case: for no failure.
    """
    handled = {
        need.step
        for step, status in zip(graph.steps, steps, strict=True)
        if status.state is not StepState.SKIPPED
        for need in step.needs
        if need.outcome is NeedOutcome.FAILED
    }
    return [
        step.key
        for step, status in zip(graph.steps, steps, strict=True)
        if status.state is StepState.FAILED and step.key not in handled
    ]


def is_stuck(steps: Sequence[Status]) -> bool:
    """Whether nothing will ever happen to the steps again, although some have not ended."""
    alive = (StepState.READY, StepState.RUNNING)
    return not any(s.state in alive for s in steps) and not all(s.state in ENDED for s in steps)
