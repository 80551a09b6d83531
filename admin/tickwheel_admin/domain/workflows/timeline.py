"""When the steps of a workflow's run were at work, and which of them its length hung on."""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.domain.workflows.states import StepState, StepStatus


def critical_path(workflow: Workflow, steps: Sequence[StepStatus]) -> list[int]:
    """The steps that followed each other to the end that came last, by index, in their order.

    Each is the one of those that the next one needs that ended last. While the run goes on, the
    last is the step that has been at work longest.
    """
    at_work = [
        index
        for index, step in enumerate(steps)
        if step.started_at is not None and step.state is not StepState.SKIPPED
    ]
    if not at_work:
        return []
    live = [index for index in at_work if not steps[index].has_ended]
    if live:
        way = [min(live, key=lambda index: steps[index].started_at or 0)]
    else:
        way = [max(at_work, key=lambda index: steps[index].since)]
    known = set(at_work)
    while True:
        needed = [
            index
            for need in workflow.steps[way[-1]].needs
            if (index := workflow.index_of[need.step]) in known
        ]
        if not needed:
            return way[::-1]
        way.append(max(needed, key=lambda index: steps[index].since))
