"""What the hidden jobs say that run the handlers and scripts among a workflow's steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tickwheel_admin.domain.jobs.job import JobConfig
from tickwheel_admin.domain.runs import script as scripts
from tickwheel_admin.domain.workflows.graph import HandlerStep, ScriptStep, Step

MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineStep:
    """A step with what its hidden job says."""

    index: int
    key: str
    executor_id: int
    config: JobConfig


def inline_steps(config: JobConfig, *, job_id: int, executor_id: int) -> Iterator[InlineStep]:
    """The steps of a job's workflow that have a hidden job; none if it is none.

    Args:
        job_id: of the workflow.
        executor_id: of the workflow, whose steps run there unless they say where.
    """
    if config.workflow is None:
        return
    for index, step in enumerate(config.workflow.steps):
        body = step.body
        if isinstance(body, HandlerStep | ScriptStep):
            place = executor_id if body.executor_id is None else body.executor_id
            is_own = place == executor_id
            name = _name(config.name, step.key, job_id, is_own=is_own)
            hidden = _hidden_config(config, step, body, name)
            yield InlineStep(index=index, key=step.key, executor_id=place, config=hidden)


def _hidden_config(
    config: JobConfig, step: Step, body: HandlerStep | ScriptStep, name: str
) -> JobConfig:
    script = body.script if isinstance(body, ScriptStep) else None
    return JobConfig(
        name=name,
        handler=body.handler if isinstance(body, HandlerStep) else scripts.HANDLER,
        script=script,
        description=step.description,
        owner=config.owner,
        tags=config.tags,
        # Values in it are put in when the step starts; what stays as it is here may name secrets.
        parameters=step.parameters,
        routing=body.rules.routing,
        priority=config.priority if body.rules.priority is None else body.rules.priority,
        pool=body.rules.pool,
        timeout_ms=body.rules.timeout_ms,
        retry=body.rules.retry,
    )


def _name(workflow: str, key: str, workflow_id: int, *, is_own: bool) -> str:
    """Unique among the hidden jobs of an executor, as the workflow's name is among its jobs.

    On another executor another workflow may have that name, and two long names may differ in what
    is cut off: then it says the workflow's id.

    Args:
        is_own: the step runs on the workflow's executor.
    """
    end = f"/{key}"
    if not is_own or len(workflow) + len(end) > MAX_NAME_CHARS:
        end = f"/{key} ({workflow_id})"
    return workflow[: MAX_NAME_CHARS - len(end)] + end
