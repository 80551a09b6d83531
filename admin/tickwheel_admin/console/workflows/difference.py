"""What lies between two workflows: one graph of both, with what came, went and changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tickwheel_admin.console.frame.graphs import GraphDrawing, GraphLink, GraphNode, draw
from tickwheel_admin.console.frame.i18n import gettext as _
from tickwheel_admin.console.workflows.graph import looks_of_link
from tickwheel_admin.console.workflows.outline import OutlinedStep, outline_of
from tickwheel_admin.domain.workflows.graph import NeedOutcome


class PartChange(StrEnum):
    """What became of a step or a link."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


MARKS = {PartChange.ADDED: "+", PartChange.REMOVED: "−", PartChange.CHANGED: "≠"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """A line of the list beside the picture."""

    change: PartChange
    name: str  # a step, or "from → to"
    fields: tuple[str, ...] = ()  # of a changed step

    @property
    def mark(self) -> str:
        return MARKS[self.change]

    @property
    def word(self) -> str:
        """What became of it, for people."""
        return change_name(self.change)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDifference:
    """Two workflows in one picture, and the same in words."""

    graph: GraphDrawing
    steps: tuple[ChangedPart, ...]
    links: tuple[ChangedPart, ...]


def change_name(change: PartChange) -> str:
    """What became of a step or a link, for people."""
    return {
        PartChange.ADDED: _("added"),
        PartChange.REMOVED: _("removed"),
        PartChange.CHANGED: _("changed"),
    }[change]


def difference_of(before: Any, after: Any) -> GraphDifference:
    """The difference of two workflows in the API's form; None where there is none."""
    old, new = outline_of(before), outline_of(after)
    known = {step.key: step for step in old}
    current = {step.key: step for step in new}
    # What went stands behind what is there: the places of the rest do not hang on it.
    steps = [*new, *(step for step in old if step.key not in current)]
    parts = {
        step.key: part
        for step in steps
        if (part := _part(known.get(step.key), current.get(step.key))) is not None
    }
    links = _links(steps, known, current)
    place = {step.key: n for n, step in enumerate(steps)}
    nodes = [_node(step, parts.get(step.key)) for step in steps]
    lines = [
        GraphLink(
            source=place[source],
            target=place[target],
            looks=(*looks_of_link(outcome), *((f"d-{change}",) if change else ())),
        )
        for source, target, outcome, change in links
    ]
    return GraphDifference(
        graph=draw(_("What changed of the steps"), nodes, lines),
        steps=tuple(parts.values()),
        links=tuple(
            ChangedPart(change=change, name=f"{source} → {target}")
            for source, target, _outcome, change in links
            if change
        ),
    )


def difference_of_revisions(before: Any, after: Any) -> GraphDifference | None:
    """The same; None where no step differs, or neither is a workflow."""
    if before is None and after is None:
        return None
    found = difference_of(before, after)
    return found if found.steps or found.links else None


def _part(old: OutlinedStep | None, new: OutlinedStep | None) -> ChangedPart | None:
    if old is None and new is not None:
        return ChangedPart(change=PartChange.ADDED, name=new.key)
    if new is None and old is not None:
        return ChangedPart(change=PartChange.REMOVED, name=old.key)
    if old is None or new is None or old.says == new.says:
        return None
    names = [name for name in {**old.says, **new.says} if old.says.get(name) != new.says.get(name)]
    return ChangedPart(change=PartChange.CHANGED, name=new.key, fields=tuple(names))


def _links(
    steps: Sequence[OutlinedStep],
    known: Mapping[str, OutlinedStep],
    current: Mapping[str, OutlinedStep],
) -> list[tuple[str, str, NeedOutcome, PartChange | None]]:
    found = []
    for step in steps:
        old = known[step.key].needs if step.key in known else {}
        new = current[step.key].needs if step.key in current else {}
        for source in {**new, **old}:
            change = None
            if source not in old:
                change = PartChange.ADDED
            elif source not in new:
                change = PartChange.REMOVED
            elif old[source] is not new[source]:
                change = PartChange.CHANGED
            outcome = new.get(source) or old[source]
            found.append((source, step.key, outcome, change))
    return found


def _node(step: OutlinedStep, part: ChangedPart | None) -> GraphNode:
    told = step.does if part is None else _(", ").join([part.word, *part.fields])
    return GraphNode(
        key=step.key,
        name=step.key,
        told=told,
        spoken=_(", ").join(filter(None, [_("step %(key)s") % {"key": step.key}, told])),
        look="" if part is None else part.change.value,
        mark="" if part is None else part.mark,
    )
