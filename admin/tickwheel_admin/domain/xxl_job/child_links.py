"""Which links from jobs of XXL-JOB to their children can be had here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tickwheel_admin.domain.imports.notes import ImportNote, note
from tickwheel_admin.domain.jobs.child_graph import circle_through, longest_chain_through
from tickwheel_admin.domain.jobs.children import MAX_CHILDREN, MAX_DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedChildren:
    """Links of all jobs that can be had, by XXL-JOB's ids, and what is told of the others."""

    links: Mapping[int, tuple[int, ...]]
    notes: Mapping[int, tuple[ImportNote, ...]]


def link_children(wanted: Mapping[int, Collection[int]], known: Collection[int]) -> LinkedChildren:
    """Which links from parents to children can be had.

    Args:
        wanted: children as they are written, by parent.
        known: jobs that exist here, or will.
    """
    links: dict[int, tuple[int, ...]] = {}
    notes: dict[int, list[ImportNote]] = {}

    def leave_out(parent: int, code: str, text: str) -> None:
        notes.setdefault(parent, []).append(note(code, text))

    for parent, children in sorted(wanted.items()):
        for child in dict.fromkeys(children):
            before = links.get(parent, ())
            if child == parent:
                leave_out(parent, "child_self", "child: it names itself, left out")
            elif child not in known:
                leave_out(parent, "child_unknown", f"child {child} is not imported, left out")
            elif len(before) == MAX_CHILDREN:
                leave_out(
                    parent,
                    "child_too_many",
                    f"child {child} is number {MAX_CHILDREN + 1}, left out",
                )
            else:
                links[parent] = (*before, child)
                if circle_through(links, parent):
                    links[parent] = before
                    leave_out(parent, "child_circle", f"child {child} closes a circle, left out")
                elif len(longest_chain_through(links, parent, limit=MAX_DEPTH + 1)) > MAX_DEPTH:
                    links[parent] = before
                    text = f"child {child} makes a chain of more than {MAX_DEPTH} jobs, left out"
                    leave_out(parent, "child_chain", text)
    return LinkedChildren(
        links={parent: children for parent, children in links.items() if children},
        notes={parent: tuple(each) for parent, each in notes.items()},
    )
