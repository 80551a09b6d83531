"""What runs for a step of a workflow under test: its handler, or what stands for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tickwheel_executor.as_json import encode
from tickwheel_executor.errors import Fail, Retry, Skip
from tickwheel_executor.workflows.step import HandlerBody, JobBody, ScriptBody, Step
from tickwheel_executor.workflows.workflow import Workflow, name_of
from tickwheel_shared.protocol import MAX_RESULT_BYTES

from .handler_end import HandlerEnd
from .memory_node import MemoryNode
from .requests import make_request
from .workflow_clock import WorkflowClock

SLOTS = 16  # runs at once, as a node has when nobody says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The handler of a step, and the job that it belongs to."""

    handler: str
    job: str
    parameters: Mapping[str, Any]  # of the job
    rules: Mapping[str, Any]  # retries and timeout, as in the API


def code_of(workflow: Workflow, step: Step) -> Code | None:
    """What this program has to run for a step; None: nothing, or a workflow."""
    if step.executor is not None:
        return None
    if isinstance(step.body, HandlerBody):
        name = workflow.handler_name(step.body)
        return Code(
            handler=name, job=f"{workflow.name}/{step.key}", parameters={}, rules=step.rules
        )
    if isinstance(step.body, JobBody) and step.body.kind == "job":
        job = workflow.handlers.jobs.get(str(step.body.job))
        if job is not None and "handler" in job:
            return Code(
                handler=job["handler"],
                job=job["name"],
                parameters=job.get("parameters", {}),
                rules=job,
            )
    return None


def inner_workflow(workflow: Workflow, step: Step) -> Workflow | None:
    """The workflow that a step runs; None: another program has it, or it runs none."""
    if not isinstance(step.body, JobBody) or step.executor is not None:
        return None
    if isinstance(step.body.job, Workflow):
        return step.body.job
    found = workflow.handlers.jobs.workflow(name_of(step.body.job))
    return found if isinstance(found, Workflow) else None


def within(key: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Of values by step, those for the workflow that this step runs."""
    start = f"{key}/"
    return {name[len(start) :]: each for name, each in values.items() if name.startswith(start)}


def missing_code(
    workflow: Workflow, returns: Mapping[str, Any], named: Collection[str], prefix: str = ""
) -> list[str]:
    """What is wrong with what a test gives: steps without code, and keys without a step."""
    found = [
        f"there is no step {prefix + name!r}"
        for name in named
        if name.partition("/")[0] not in workflow.index_of
    ]
    for step in workflow.steps:
        if step.key in returns or not isinstance(step.body, HandlerBody | JobBody | ScriptBody):
            continue
        inner = inner_workflow(workflow, step)
        if inner is not None:
            found += missing_code(
                inner,
                within(step.key, returns),
                within(step.key, dict.fromkeys(named)),
                f"{prefix}{step.key}/",
            )
        elif code_of(workflow, step) is None:
            key = prefix + step.key
            found.append(
                f"this program has nothing to run for the step {key!r}: say what stands for it, "
                f"as in returns={{{key!r}: …}}"
            )
    return found


class StepCode:
    """Runs what there is for steps.

    Args:
        returns: by step, what stands for its code.
    """

    def __init__(self, node: MemoryNode, returns: Mapping[str, Any]) -> None:
        self._node = node
        self._slots = asyncio.Semaphore(SLOTS)
        self.returns = returns
        self._runs = itertools.count(2)  # 1 is the workflow

    def of_inner(self, key: str) -> StepCode:
        """The same for the workflow that a step runs."""
        inner = StepCode(self._node, within(key, self.returns))
        inner._runs, inner._slots = self._runs, self._slots
        return inner

    def new_run(self) -> int:
        """An id for a run, which its tries share."""
        return next(self._runs)

    async def run(
        self,
        code: Code | None,
        key: str,
        parameters: Mapping[str, Any],
        *,
        run_id: int,
        try_number: int,
        max_tries: int,
        checkpoint: Any,
        may_spawn: bool,
        item: Any,
        clock: WorkflowClock,
    ) -> HandlerEnd:
        """One try.

        Args:
            item: that the step's run has spawned; None: none.
        """
        if code is None or key in self.returns:
            return _stand_in(self.returns[key], parameters)
        timeout = code.rules.get("timeout_seconds")
        request = make_request(
            run_id,
            code.handler,
            parameters,
            job=code.job,
            origin="step",
            scheduled_at=clock.moment(),
            try_number=try_number,
            max_tries=max_tries,
            checkpoint=checkpoint,
            may_spawn=may_spawn,
            item=item,
            timeout=None if timeout is None else float(timeout),
        )
        async with self._slots:
            return await self._node.run(request)


def _stand_in(value: Any, parameters: Mapping[str, Any]) -> HandlerEnd:
    """As if a handler had returned or raised this."""
    try:
        if isinstance(value, BaseException):
            raise value
        returned = value(parameters) if callable(value) else value
        text, problem = encode(returned, what="the result", limit=MAX_RESULT_BYTES)
        if problem:
            return _end("failed", message=problem)
        return _end("succeeded", result=msgspec.json.decode(text))
    except Skip as error:
        return _end("skipped", message=str(error))
    except Retry as error:
        after = None if error.after_ms is None else error.after_ms / 1000
        return _end("failed", message=str(error), retry_after=after)
    except Exception as error:  # noqa: BLE001 - as a handler, it may raise anything
        return _end("failed", message=str(error), final=isinstance(error, Fail))


def _end(
    outcome: str,
    *,
    result: Any = None,
    message: str = "",
    retry_after: float | None = None,
    final: bool = False,
) -> HandlerEnd:
    return HandlerEnd(
        outcome=outcome,
        result=result,
        message=message,
        log=[],
        progress=[],
        state=None,
        checkpoint=None,
        retry_after=retry_after,
        final=final,
        seconds=0.0,
    )
