"""Run one workflow with its handlers, without admin, network, disk or waiting."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tickwheel_executor.client.call import Call
from tickwheel_executor.errors import HandlerError
from tickwheel_executor.workflows.workflow import Workflow

from .memory_node import MemoryNode
from .step_code import SLOTS, StepCode, missing_code
from .workflow_clock import WorkflowClock
from .workflow_end import WorkflowEnd
from .workflow_play import WorkflowPlay


def run_workflow(
    workflow: Workflow,
    *,
    parameters: Mapping[str, Any] | None = None,
    answers: Mapping[str, bool] | None = None,
    returns: Mapping[str, Any] | None = None,
    scheduled_at: datetime | None = None,
) -> Call[WorkflowEnd]:
    """Run a workflow once, in this process, and return how it and each of its steps ended.

    Values, conditions and what begins are decided by the code of the admin, and handlers run as on
    a node. Waits and the delays of retries take no time: the clock of the workflow is set forward.

        end = await run_workflow(month_end, answers={"sign": True})
        end = run_workflow(month_end, answers={"sign": True}).result()  # without a loop

    Args:
        parameters: over those of the workflow, key by key.
        answers: by step, whether a person approves or lets it go on. What is not named here goes on
            at a breakpoint, and does at an approval what its silence means.
        returns: by step, what stands for its handler: a value, an exception to be raised, or a
            function of the parameters. For what is not in this program, such as a script, and
            for failures. Steps of a sub-workflow are named `step/inner`, here and in `answers`.
        scheduled_at: aware; None: now.

    Raises:
        HandlerError: the workflow is wrong, with every problem.
        ValueError: a step has neither code nor an entry in `returns`, a key names no step, or
            nobody answers.
    """
    if found := workflow.problems():
        raise HandlerError("\n".join(f"workflow {workflow.name!r}: {told}" for told in found))
    given, standing = dict(answers or {}), dict(returns or {})
    if problems := missing_code(workflow, standing, {*given, *standing}):
        raise ValueError("; ".join(problems))
    at = datetime.now(UTC) if scheduled_at is None else scheduled_at
    if at.tzinfo is None:
        raise ValueError("scheduled_at is naive: give it a time zone")
    return Call(_run(workflow, dict(parameters or {}), given, standing, at))


async def _run(
    workflow: Workflow,
    parameters: Mapping[str, Any],
    answers: Mapping[str, bool],
    returns: Mapping[str, Any],
    at: datetime,
) -> WorkflowEnd:
    handlers = workflow.handlers.only(*workflow.handlers)
    async with MemoryNode(handlers, name="run_workflow", slots=SLOTS) as node:
        clock = WorkflowClock(round(at.timestamp() * 1000))
        play = WorkflowPlay(
            workflow,
            StepCode(node, returns),
            parameters=parameters,
            answers=answers,
            clock=clock,
        )
        return await play.play()
