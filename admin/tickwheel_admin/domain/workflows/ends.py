"""How the run of a workflow ends, by its steps."""

from __future__ import annotations

from collections.abc import Sequence

from tickwheel_admin.domain.runs.run import TIMEOUT, RunState
from tickwheel_admin.domain.workflows.graph import Workflow
from tickwheel_admin.domain.workflows.states import STOPPED, StepStatus
from tickwheel_shared.workflows.decide import unhandled_failures

WORKFLOW_TIMEOUT = "workflow_timeout"  # cancel_reason of the runs of a workflow past its timeout


def end_of(
    graph: Workflow, steps: Sequence[StepStatus], *, cancel_reason: str | None
) -> RunState | None:
    """How the workflow's run ends; None: it goes on.

    One that was to be cancelled, or is past its timeout, but lost nothing by it, has succeeded.

    Args:
        cancel_reason: of the workflow's run; None: nobody wanted its end.
    """
    if not all(each.has_ended for each in steps):
        return None
    failed = bool(unhandled_failures(graph, steps))
    if cancel_reason is not None and (failed or any(s.reason == STOPPED for s in steps)):
        return RunState.TIMED_OUT if cancel_reason == TIMEOUT else RunState.CANCELLED
    return RunState.FAILED if failed else RunState.SUCCEEDED
