"""A step as YAML and API have it (docs/workflows.md); what says nothing is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tickwheel_shared.workflows.parts import Need, NeedOutcome

from .step import ApprovalBody, HandlerBody, JobBody, ScriptBody, Step


def raw_of(step: Step, handler_name: Callable[[HandlerBody], str]) -> dict[str, Any]:
    """The step in that form.

    Raises:
        HandlerError: its handler has no name.
    """
    raw: dict[str, Any] = {"key": step.key, **_body(step, handler_name)}
    if step.needs:
        raw["needs"] = [_need(each) for each in step.needs]
    if step.when is not None:
        raw["when"] = step.when
    if step.items is not None:
        raw["for_each"] = _for_each(step, step.items)
    elif rules := _rules_of_items(step):
        raw["spawn"] = rules
    if step.parameters != "{}":
        raw["parameters"] = msgspec.json.decode(step.parameters)
    if step.pause_before:
        raw["pause_before"] = True
    if step.description:
        raw["description"] = step.description
    return {**raw, **step.rules}


def _body(step: Step, handler_name: Callable[[HandlerBody], str]) -> dict[str, Any]:
    body, executor = step.body, step.executor
    match body:
        case JobBody(kind=kind, job=job):
            name = job if isinstance(job, str) else job.name
            return {kind: name if executor is None else {"executor": executor, "name": name}}
        case HandlerBody():
            raw: dict[str, Any] = {"handler": handler_name(body)}
        case ScriptBody(script=script):
            raw = {"script": script}
        case ApprovalBody(approval=approval):
            return {"approval": approval}
        case _:
            return {"wait": body.wait}
    return raw if executor is None else raw | {"executor": executor}


def _need(need: Need) -> str | dict[str, str]:
    if need.outcome is NeedOutcome.SUCCEEDED:
        return need.step
    return {"step": need.step, "outcome": need.outcome.value}


def _for_each(step: Step, items: str) -> Any:
    listed = msgspec.json.decode(items)
    if step.max_parallel is None and not step.tolerate:
        return listed
    return {"items": listed, **_rules_of_items(step)}


def _rules_of_items(step: Step) -> dict[str, Any]:
    rules = {"max_parallel": step.max_parallel, "tolerate": step.tolerate}
    return {name: value for name, value in rules.items() if value}
