"""A workflow's YAML text edited as its graph is: a step more or less, a link, another name.

What the text must say afterwards is computed from its values. The text itself is then changed only
where it has to be, so comments and layout stay; if that does not say the same, as with steps
written in one line, the whole is written anew.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tickwheel_admin.domain.errors import InvalidInput
from tickwheel_admin.domain.input.workflow_steps import KEY
from tickwheel_admin.domain.workflows.graph import MAX_KEY_CHARS
from tickwheel_admin.services.jobs.workflow_lines import Unclear, WorkflowLines
from tickwheel_admin.services.jobs.yaml_reader import read_yaml
from tickwheel_admin.services.jobs.yaml_writer import write_yaml

_REFERENCE = re.compile(r"\$\{[^{}]*\}")  # with "{" in it, "${${${…" would take n² steps


class EditKind(StrEnum):
    """What may be done with a graph."""

    ADD = "add"
    REMOVE = "remove"
    RENAME = "rename"
    CONNECT = "connect"
    DISCONNECT = "disconnect"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdit:
    """One edit of a graph."""

    kind: EditKind
    step: str  # the one that is added, removed or renamed, or that needs the other one
    other: str = ""  # the new name, or the step that is needed; of a new step: "" for none


def edited(text: str, edit: GraphEdit) -> str:
    """The text with the edit.

    Raises:
        InvalidInput: the text cannot be read, has no such step, or the new name is no key or is
            taken.
    """
    wanted = _wanted(read_yaml(text).value, edit)
    try:
        changed = _in_place(text, edit)
        if read_yaml(changed).value == wanted:
            return changed
    except (Unclear, InvalidInput):
        pass  # it is written in a way of its own
    return write_yaml(wanted)


def _in_place(text: str, edit: GraphEdit) -> str:
    lines = WorkflowLines(text)
    match edit.kind:
        case EditKind.ADD:
            lines.add(edit.step, needs=edit.other)
        case EditKind.REMOVE:
            lines.remove(edit.step)
        case EditKind.CONNECT:
            lines.connect(edit.other, edit.step)
        case EditKind.DISCONNECT:
            lines.disconnect(edit.other, edit.step)
        case EditKind.RENAME:
            lines.rename(edit.step, edit.other, references=renamed_references)
    return lines.text()


def _wanted(raw: Mapping[str, Any], edit: GraphEdit) -> dict[str, Any]:
    changed = deepcopy(dict(raw))
    workflow = changed.get("workflow")
    steps = workflow.get("steps") if isinstance(workflow, dict) else None
    if not isinstance(workflow, dict) or not isinstance(steps, list):
        raise InvalidInput.one(
            "workflow.steps", "required", "Give a list of at least one step, each with a “key”."
        )
    known = {each["key"]: each for each in steps if isinstance(each, dict) and _key_of(each)}
    if edit.kind is not EditKind.ADD and edit.step not in known:
        raise _no_such_step(edit.step)
    new = {EditKind.ADD: edit.step, EditKind.RENAME: edit.other}.get(edit.kind)
    if new is not None and new != (edit.step if edit.kind is EditKind.RENAME else None):
        _check_key(new, known)
    if edit.kind is not EditKind.RENAME and edit.other and edit.other not in known:
        raise _no_such_step(edit.other)
    match edit.kind:
        case EditKind.ADD:
            needs = {"needs": [edit.other]} if edit.other else {}
            steps.append({"key": edit.step, "handler": "", **needs})
        case EditKind.REMOVE:
            steps.remove(known.pop(edit.step))
            for each in known.values():
                _without_need(each, edit.step)
            if workflow.get("output") == edit.step:
                del workflow["output"]
        case EditKind.CONNECT:
            _with_need(known[edit.step], edit.other)
        case EditKind.DISCONNECT:
            _without_need(known[edit.step], edit.other)
        case EditKind.RENAME:
            _rename(workflow, steps, edit)
    return changed


def _rename(workflow: dict[str, Any], steps: list[Any], edit: GraphEdit) -> None:
    if workflow.get("output") == edit.step:
        workflow["output"] = edit.other
    for each in steps:
        if not isinstance(each, dict):
            continue
        if each.get("key") == edit.step:
            each["key"] = edit.other
        needs = each.get("needs")
        for index, need in enumerate(needs if isinstance(needs, list) else ()):
            if need == edit.step:
                each["needs"][index] = edit.other
            elif isinstance(need, dict) and need.get("step") == edit.step:
                need["step"] = edit.other
        for name in ("when", "for_each", "parameters", "wait"):
            if name in each:
                each[name] = _with_references(
                    each[name], edit.step, edit.other, whole=name == "when"
                )


def _with_references(value: Any, old: str, new: str, *, whole: bool) -> Any:
    if isinstance(value, str):
        return renamed_references(value, old, new, whole=whole)
    if isinstance(value, list):
        return [_with_references(each, old, new, whole=whole) for each in value]
    if isinstance(value, dict):
        return {name: _with_references(each, old, new, whole=whole) for name, each in value.items()}
    return value


def renamed_references(text: str, old: str, new: str, *, whole: bool) -> str:
    """The text with `steps.old` as `steps.new`, in each `${…}` of it.

    Args:
        whole: all of it is a condition.
    """
    name = re.compile(
        rf"(?<![\w.\]-])steps(?:\.{re.escape(old)}(?![\w-])|\[\"{re.escape(old)}\"\])"
    )

    def replaced(part: str) -> str:
        return name.sub(f"steps.{new}" if re.match(r"[A-Za-z0-9_]", new) else part, part)

    return replaced(text) if whole else _REFERENCE.sub(lambda found: replaced(found[0]), text)


def _with_need(step: dict[str, Any], other: str) -> None:
    needs = step.get("needs")
    if needs is None:
        step["needs"] = [other]
    elif isinstance(needs, list) and not any(_is_need_of(need, other) for need in needs):
        needs.append(other)


def _without_need(step: dict[str, Any], other: str) -> None:
    needs = step.get("needs")
    if not isinstance(needs, list) or not any(_is_need_of(need, other) for need in needs):
        return
    step["needs"] = [need for need in needs if not _is_need_of(need, other)]
    if not step["needs"]:
        del step["needs"]


def _is_need_of(need: Any, step: str) -> bool:
    return need == step or (isinstance(need, Mapping) and need.get("step") == step)


def _key_of(step: Mapping[str, Any]) -> str:
    key = step.get("key")
    return key if isinstance(key, str) else ""


def _check_key(key: str, known: Mapping[str, Any]) -> None:
    if not KEY.fullmatch(key) or len(key) > MAX_KEY_CHARS:
        raise InvalidInput.one(
            "key",
            "workflow.key",
            "A key has a-z, 0-9, underscores and hyphens, such as load-orders, and does not begin"
            " with a hyphen.",
        )
    if key in known:
        raise InvalidInput.one("key", "workflow.key_taken", "There is a step of this key already.")


def _no_such_step(key: str) -> InvalidInput:
    return InvalidInput.one(
        "step", "workflow.no_such_step", "There is no step “%(key)s” any more.", key=key[:80]
    )
