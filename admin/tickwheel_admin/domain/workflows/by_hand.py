"""What people may do with the steps of a workflow's run that has not ended."""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.domain.workflows.states import (
    BREAKPOINT,
    LET_GO,
    NEEDS,
    StepState,
    StepStatus,
)

_NOT_BEGUN = (StepState.WAITING, StepState.READY)


def can_be_skipped(status: StepStatus) -> bool:
    """Whether it may count as passed: it has failed, or has not begun."""
    return status.state is StepState.FAILED or status.state in _NOT_BEGUN


def can_be_paused(status: StepStatus) -> bool:
    """Whether it may be told to wait for a person before it begins."""
    return status.state is StepState.WAITING and status.reason != BREAKPOINT


def is_paused(status: StepStatus, *, pause_before: bool) -> bool:
    """Whether it waits for a person before it begins, or will."""
    if status.state not in _NOT_BEGUN:
        return False
    if status.reason == BREAKPOINT:
        return True
    return status.state is StepState.WAITING and pause_before and status.reason != LET_GO


def wait_again(graph: Workflow, steps: Sequence[StepStatus], index: int) -> list[int]:
    """Steps that were skipped only for what they need, when one of them counts as passed now.

    They are looked at anew; one that still cannot run is skipped again. What is taken over from
    another run stays as it is.
    """
    found, passed = list[int](), {graph.steps[index].key}
    more = True
    while more:
        more = False
        for place, (step, status) in enumerate(zip(graph.steps, steps, strict=True)):
            if (
                step.key not in passed
                and status.state is StepState.SKIPPED
                and status.reason == NEEDS
                and status.taken_from is None
                and any(need.step in passed for need in step.needs)
            ):
                found.append(place)
                passed.add(step.key)
                more = True
    return sorted(found)
