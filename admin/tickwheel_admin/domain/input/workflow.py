"""A workflow as people and programs write it, and back.

    workflow:
      output: report
      steps:
        - key: extract
          job: 12
        - key: convert
          handler: convert
          needs: [extract]
          for_each: ${steps.extract.result.files}
          parameters: {file: "${item}"}

Names of jobs and executors are replaced by ids before this reads it (`services.workflows.names`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.input.routing import ROUTING_FIELDS, routing_to_raw
from tickwheel_admin.domain.input.run_rules import POOL_FIELDS, RETRY_FIELDS, retry_to_raw
from tickwheel_admin.domain.input.workflow_steps import read_step, step_to_raw
from tickwheel_admin.domain.routing.policy import RoutingPolicy
from tickwheel_admin.domain.runs.retry import RetryPolicy
from tickwheel_admin.domain.workflows.checks import problems_of
from tickwheel_admin.domain.workflows.graph import (
    HANDLER,
    MAX_KEY_CHARS,
    MAX_STEPS,
    Step,
    Workflow,
)

WORKFLOW_FIELDS = ("steps", "output")
# What these fields say of every job: it comes back with what was read.
_PLAIN_RULES = routing_to_raw(RoutingPolicy()) | retry_to_raw(RetryPolicy())


def handler_with_workflow(fields: Fields, handler: str) -> str:
    """The handler of a job that has a workflow or none; a workflow need not name it."""
    has_workflow = fields.has("workflow")
    if has_workflow and not fields.has("handler"):
        return HANDLER
    if not has_workflow:
        fields.refuse(
            "workflow",
            "workflow.missing",
            "The handler “%(handler)s” runs the job’s workflow: give its steps.",
            handler=HANDLER,
        )
    elif handler != HANDLER:
        fields.refuse(
            "handler",
            "workflow.handler",
            "A workflow has the handler “%(handler)s”: leave this out, with any script, and give"
            " what shall run as a step.",
            handler=HANDLER,
        )
    return handler


def check_fields_of_workflow(fields: Fields) -> None:
    """Refuse what only the steps of a workflow can have."""
    if not fields.has("workflow"):
        return
    if fields.has("script"):
        fields.refuse(
            "script",
            "does_not_apply",
            "A job has either a script or a workflow; a step of the workflow can have the script.",
        )
    for name in (*ROUTING_FIELDS, *RETRY_FIELDS, *POOL_FIELDS):
        if fields.raw.get(name) not in (None, _PLAIN_RULES.get(name)):
            fields.refuse(
                name,
                "does_not_apply",
                "A workflow runs on no node: give this to its steps, or leave it out.",
            )


def read_workflow(fields: Fields) -> Workflow | None:
    """The graph of a job; None if it has none, or one that is wrong, which is noted."""
    if not fields.has("workflow"):
        return None
    before = len(fields.problems)
    own = Fields(fields.raw["workflow"], fields.where("workflow"), fields.problems)
    if not own.is_object:
        return None
    own.only(WORKFLOW_FIELDS)
    output = own.text("output", max_chars=MAX_KEY_CHARS)
    steps = _read_steps(own)
    if len(fields.problems) > before:
        return None
    workflow = Workflow(steps=tuple(steps), output=output or None)
    fields.problems += problems_of(workflow, path=own.path)
    return workflow if len(fields.problems) == before else None


def workflow_to_raw(workflow: Workflow | None) -> dict[str, Any] | None:
    """What `read_workflow` reads as this graph; what says nothing is left out of its steps."""
    if workflow is None:
        return None
    raw: dict[str, Any] = {"steps": [step_to_raw(step) for step in workflow.steps]}
    return raw if workflow.output is None else {"output": workflow.output} | raw


def _read_steps(own: Fields) -> list[Step]:
    value = own.raw.get("steps")
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        own.refuse("steps", "required", "Give a list of at least one step, each with a “key”.")
        return []
    if len(value) > MAX_STEPS:
        own.refuse(
            "steps",
            "too_many",
            "At most %(limit)s steps, please; put some into a workflow of their own.",
            limit=f"{MAX_STEPS:,}",
        )
        return []
    steps: list[Step] = []
    places: dict[str, int] = {}
    for index, raw in enumerate(value):
        fields = Fields(raw, own.where(f"steps[{index}]"), own.problems)
        if not fields.is_object:
            continue
        step = read_step(fields)
        if step is None:
            continue
        if step.key in places:
            fields.refuse(
                "key",
                "duplicate",
                "Step %(number)d has the key “%(key)s” already; give this one another.",
                number=places[step.key] + 1,
                key=step.key,
            )
        places.setdefault(step.key, index)
        steps.append(step)
    return steps
