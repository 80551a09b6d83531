"""A step of a workflow as people write it, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.input.json_text import BadJson, text_of_object
from tickwheel_admin.domain.input.workflow_bodies import (
    BODY_FIELDS,
    KINDS,
    body_to_raw,
    read_body,
)
from tickwheel_admin.domain.input.workflow_items import (
    checked_references,
    for_each_to_raw,
    read_for_each,
    read_spawn,
    spawn_to_raw,
)
from tickwheel_admin.domain.jobs.secret_references import MARK
from tickwheel_admin.domain.workflows.graph import (
    MAX_KEY_CHARS,
    Approval,
    JobStep,
    Need,
    NeedOutcome,
    ScriptStep,
    Step,
    SubWorkflow,
    Wait,
)
from tickwheel_shared.workflows.conditions import (
    MAX_CHARS,
    BadCondition,
    compile_condition,
)
from tickwheel_shared.workflows.values import references_in

STEP_FIELDS = (
    "key",
    *KINDS,
    "needs",
    "when",
    "for_each",
    "spawn",
    "parameters",
    "pause_before",
    "description",
    *BODY_FIELDS,
)
MAX_NEEDS = 100  # of one step
MAX_DESCRIPTION_CHARS = 1_000
KEY = re.compile(r"[a-z0-9_][a-z0-9_-]*", re.ASCII)


def read_step(fields: Fields) -> Step | None:
    """A step; None when something of it is wrong, which is noted."""
    before = len(fields.problems)
    fields.only(STEP_FIELDS)
    key = fields.text("key", max_chars=MAX_KEY_CHARS, required=True)
    if key and not KEY.fullmatch(key):
        fields.refuse(
            "key",
            "workflow.key",
            "A key has a-z, 0-9, underscores and hyphens, such as load-orders, and does not begin"
            " with a hyphen.",
        )
    body = read_body(fields)
    step = None
    needs, when, for_each = _read_needs(fields), _read_when(fields), read_for_each(fields)
    parameters = _read_parameters(fields)
    if body is not None:
        step = Step(
            key=key,
            body=body,
            needs=needs,
            when=when,
            for_each=for_each,
            spawn=read_spawn(fields),
            parameters=parameters,
            pause_before=fields.boolean("pause_before", default=False),
            description=fields.text("description", max_chars=MAX_DESCRIPTION_CHARS, lines=True),
        )
        _check_together(fields, step)
    return step if len(fields.problems) == before else None


def _check_together(fields: Fields, step: Step) -> None:
    if isinstance(step.body, Approval | Wait):
        for name in ("for_each", "spawn", "parameters"):
            if fields.has(name):
                fields.refuse(
                    name, "does_not_apply", "This step runs nothing that could take them."
                )
    if step.spawn is not None and (
        step.for_each is not None or isinstance(step.body, SubWorkflow | ScriptStep)
    ):
        fields.refuse(
            "spawn",
            "does_not_apply",
            "This is for what the run of a handler spawns: leave it out of a script, a workflow and"
            " a step with “for_each”.",
        )
    if isinstance(step.body, JobStep | SubWorkflow) and MARK in step.parameters:
        fields.refuse(
            "parameters",
            "workflow.secret",
            "A step that runs a job takes no secrets: name them in the job’s own parameters.",
        )
    elif MARK in step.parameters:
        _check_unmixed(fields, step.parameters)


def _check_unmixed(fields: Fields, parameters: str) -> None:
    """Refuse what would be sent as text: secrets are put in only where nothing else is."""
    for name, value in json.loads(parameters).items():
        text = json.dumps(value, ensure_ascii=False)
        if MARK in text and references_in(text):
            fields.refuse(
                f"parameters.{name[:50]}",
                "workflow.secret_beside_value",
                "A parameter holds either secrets or values of the workflow, not both: what comes"
                " from elsewhere must not name secrets. Give them in two parameters.",
            )


def _read_needs(fields: Fields) -> tuple[Need, ...]:
    if not fields.has("needs"):
        return ()
    value = fields.raw["needs"]
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        fields.refuse("needs", "wrong_type", "This must be a list of keys of steps.")
        return ()
    if len(value) > MAX_NEEDS:
        fields.refuse("needs", "too_many", "At most %(limit)d, please.", limit=MAX_NEEDS)
        return ()
    needs: list[Need] = []
    for index, raw in enumerate(value):
        if isinstance(raw, str):
            needs.append(Need(step=raw))
            continue
        need = Fields(raw, fields.where(f"needs[{index}]"), fields.problems)
        if not need.is_object:
            continue
        need.only(("step", "outcome"))
        needs.append(
            Need(
                step=need.text("step", max_chars=MAX_KEY_CHARS, required=True),
                outcome=need.member("outcome", NeedOutcome, default=NeedOutcome.SUCCEEDED),
            )
        )
    return tuple(needs)


def _read_when(fields: Fields) -> str | None:
    text = fields.text("when", max_chars=MAX_CHARS, lines=True)
    if not text:
        return None
    try:
        compile_condition(text)
    except BadCondition as error:
        fields.refuse(
            "when",
            "workflow.condition",
            "Column %(column)d: %(expected)s was expected here. A condition looks like"
            " steps.extract.result.rows > 0 and parameters.mode == 'full'.",
            column=error.column,
            expected=error.expected,
        )
        return None
    return text


def _read_parameters(fields: Fields) -> str:
    if not fields.has("parameters"):
        return "{}"
    try:
        text = text_of_object(fields.raw["parameters"])
    except BadJson as error:
        fields.refuse("parameters", error.code, error.template, **error.params)
        return "{}"
    return checked_references(fields, "parameters", text) or "{}"


def step_to_raw(step: Step) -> dict[str, Any]:
    """What `read_step` reads as this step; what says nothing is left out."""
    raw = {
        "key": step.key,
        **body_to_raw(step.body),
        "needs": [_need_to_raw(need) for need in step.needs],
        "when": step.when,
        "for_each": for_each_to_raw(step.for_each),
        "spawn": spawn_to_raw(step.spawn),
        "parameters": json.loads(step.parameters),
        "pause_before": step.pause_before or None,
        "description": step.description,
    }
    kinds = {name for name in KINDS if name in raw}
    return {name: value for name, value in raw.items() if name in kinds or not _says_nothing(value)}


def _says_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def _need_to_raw(need: Need) -> str | dict[str, Any]:
    if need.outcome is NeedOutcome.SUCCEEDED:
        return need.step
    return {"step": need.step, "outcome": need.outcome.value}
