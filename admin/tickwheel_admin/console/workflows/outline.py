"""A workflow as it is written, whether it may be saved or not: its steps and what they need.

Whoever types has a text that is wrong most of the time; its graph is drawn all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tickwheel_admin.console.frame.graphs import GraphDrawing, GraphLink, GraphNode, draw
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.workflows.graph import looks_of_link
from tickwheel_admin.domain.fields import Fields
from tickwheel_admin.domain.input.workflow_bodies import KINDS
from tickwheel_admin.domain.input.workflow_steps import read_step, step_to_raw
from tickwheel_admin.domain.workflows.graph import MAX_STEPS, NeedOutcome

MAX_NEEDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlinedStep:
    """A step as it is written."""

    index: int  # in the text
    key: str
    needs: Mapping[str, NeedOutcome]  # of steps that are there
    does: str  # for people
    says: Mapping[str, Any]  # its other fields, in one form for all that mean the same


def outline_of(workflow: Any) -> tuple[OutlinedStep, ...]:
    """The steps that can be made out, in their order; of two with one key the first."""
    steps = workflow.get("steps") if isinstance(workflow, Mapping) else None
    found: dict[str, tuple[int, Mapping[str, Any]]] = {}
    for index, each in enumerate(steps[:MAX_STEPS] if isinstance(steps, list) else ()):
        if isinstance(each, Mapping) and isinstance(key := each.get("key"), str) and key:
            found.setdefault(key, (index, each))
    return tuple(
        OutlinedStep(
            index=index,
            key=key,
            needs={name: how for name, how in _needs(each).items() if name in found},
            does=_does(each),
            says=_says(each),
        )
        for key, (index, each) in found.items()
    )


def graph_of_outline(steps: Sequence[OutlinedStep], *, wrong: frozenset[int]) -> GraphDrawing:
    """The graph of what is written.

    Args:
        wrong: the indexes of steps that something is wrong with.
    """
    index = {step.key: place for place, step in enumerate(steps)}
    nodes = [
        GraphNode(
            key=step.key,
            name=step.key,
            told=step.does,
            spoken=_(", ").join(_spoken(step, is_wrong=step.index in wrong)),
            look="wrong" if step.index in wrong else "",
            mark="!" if step.index in wrong else "",
            href=f"#step-{step.key}",
        )
        for step in steps
    ]
    links = [
        GraphLink(source=index[name], target=place, looks=looks_of_link(how))
        for place, step in enumerate(steps)
        for name, how in step.needs.items()
    ]
    return draw(_("Steps and what they need"), nodes, links)


def _spoken(step: OutlinedStep, *, is_wrong: bool) -> list[str]:
    parts = [_("step %(key)s") % {"key": step.key}, step.does]
    return [*parts, _("something is wrong with it")] if is_wrong else parts


def _needs(step: Mapping[str, Any]) -> dict[str, NeedOutcome]:
    needs = step.get("needs")
    found: dict[str, NeedOutcome] = {}
    for need in needs[:MAX_NEEDS] if isinstance(needs, list) else ():
        outcome: Any = NeedOutcome.SUCCEEDED
        name: Any = need
        if isinstance(need, Mapping):
            name, outcome = need.get("step"), need.get("outcome", NeedOutcome.SUCCEEDED)
        if isinstance(name, str):
            known = isinstance(outcome, str) and outcome in frozenset(NeedOutcome)
            found[name] = NeedOutcome(outcome) if known else NeedOutcome.SUCCEEDED
    return found


def _does(step: Mapping[str, Any]) -> str:
    kind = next((name for name in KINDS if name in step), None)
    value = step.get(kind) if kind else None
    match kind, value:
        case "handler" | "job" | "workflow", str():
            return str(value)
        case "job" | "workflow", {"name": name}:
            return str(name)
        case "job", _number:
            return _("Job #%(id)s") % {"id": _number}
        case "workflow", _number:
            return _("Workflow #%(id)s") % {"id": _number}
        case "script", {"language": language}:
            return _("Script (%(language)s)") % {"language": language}
        case "approval", _any:
            return _("Approval")
        case "wait", _any:
            return _("Wait")
    return ""


def _says(step: Mapping[str, Any]) -> Mapping[str, Any]:
    """What it says besides key and needs; written out alike where it can be read."""
    bare = {name: value for name, value in step.items() if name != "needs"}
    fields = Fields(bare, "", [])
    read = read_step(fields)
    raw = bare if read is None else step_to_raw(read)
    return {
        name: value
        for name, value in raw.items()
        if name != "key" and value not in (None, "", [], {}, False)
    }
