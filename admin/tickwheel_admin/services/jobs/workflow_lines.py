"""The lines of a workflow's YAML text, to be changed in place.

Positions are those of libyaml's marks. Whatever is not written as most people write it raises
`Unclear`: nothing here guesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import yaml

from tickwheel_admin.services.jobs.yaml_reader import NUMBER, WORDS

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_REFERRING = frozenset({"when", "for_each", "parameters", "wait"})


class Unclear(Exception):
    """The text cannot be changed in place."""


class References(Protocol):
    """Replaces references to a step in a text; `whole`: the text is a condition."""

    def __call__(self, text: str, old: str, new: str, *, whole: bool) -> str: ...


class WorkflowLines:
    """A text and the changes that are made to it; each edit may be called once."""

    def __init__(self, text: str) -> None:
        """Raises Unclear: a text without steps in a block."""
        self._text = text if text.endswith("\n") else text + "\n"
        self._starts = [0]
        for line in self._text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._changes: list[tuple[int, int, str]] = []
        try:
            root = yaml.compose(self._text, Loader=_Loader)
        except yaml.YAMLError:
            raise Unclear from None
        self._workflow = _mapping(_value(_mapping(root), "workflow"))
        steps = _value(self._workflow, "steps")
        if not isinstance(steps, yaml.SequenceNode) or steps.flow_style or not steps.value:
            raise Unclear
        self._steps = [_mapping(each) for each in steps.value]

    def text(self) -> str:
        """The text with its changes."""
        parts: list[str] = []
        place = 0
        for start, end, new in sorted(self._changes):
            if start < place:
                raise Unclear  # one change lies within another
            parts += [self._text[place:start], new]
            place = end
        return "".join(parts) + self._text[place:]

    def add(self, key: str, *, needs: str) -> None:
        """A step behind all others, which needs one of them, or "" for none."""
        last = self._steps[-1]
        indent = " " * self._dash(last)
        lines = [f"- key: {_plain(key)}", '  handler: ""']
        if needs:
            lines.append(f"  needs: [{_plain(needs)}]")
        self._insert_after(self._last_line(last), "".join(f"{indent}{line}\n" for line in lines))

    def remove(self, key: str) -> None:
        """The step, the needs of it, and that it is the output."""
        step = self._step(key)
        self._dash(step)
        self._delete_lines(step.start_mark.line, self._last_line(step))
        for other in self._steps:
            if other is not step:
                self._drop_need(other, key)
        for name, value in self._workflow.value:
            if name.value == "output" and _text(value) == key:
                self._delete_lines(name.start_mark.line, self._last_line(value))

    def connect(self, source: str, target: str) -> None:
        """The target needs the source."""
        step = self._step(target)
        needs = _value(step, "needs")
        if needs is None:
            self._dash(step)
            column = step.start_mark.column
            key = _value(step, "key")
            if key is None:
                raise Unclear
            new = f"{' ' * column}needs: [{_plain(source)}]\n"
            self._insert_after(self._last_line(key), new)
            return
        if not isinstance(needs, yaml.SequenceNode):
            raise Unclear
        if any(_need(each) == source for each in needs.value):
            return
        if needs.flow_style:
            last = needs.value[-1] if needs.value else None
            end = self._at(needs.end_mark) - 1 if last is None else self._at(last.end_mark)
            comma = "" if last is None else ", "
            self._changes.append((end, end, f"{comma}{_plain(source)}"))
            return
        indent = " " * self._dash(needs.value[-1])
        self._insert_after(self._last_line(needs.value[-1]), f"{indent}- {_plain(source)}\n")

    def disconnect(self, source: str, target: str) -> None:
        """The target needs the source no longer."""
        self._drop_need(self._step(target), source)

    def rename(self, old: str, new: str, *, references: References) -> None:
        """The key, all needs of it, the output, and the references to its result and state."""
        for name, value in self._workflow.value:
            if name.value == "output" and _text(value) == old:
                self._replace(value, _plain(new))
        for step in self._steps:
            for name, value in step.value:
                if name.value == "key" and _text(value) == old:
                    self._replace(value, _plain(new))
                elif name.value == "needs" and isinstance(value, yaml.SequenceNode):
                    for each in value.value:
                        own = _value(each, "step") if isinstance(each, yaml.MappingNode) else each
                        if own is not None and _text(own) == old:
                            self._replace(own, _plain(new))
                elif name.value in _REFERRING:
                    for leaf in _leaves(value):
                        start, end = self._at(leaf.start_mark), self._at(leaf.end_mark)
                        written = self._text[start:end]
                        changed = references(written, old, new, whole=name.value == "when")
                        if changed != written:
                            self._changes.append((start, end, changed))

    def _drop_need(self, step: yaml.MappingNode, source: str) -> None:
        for name, needs in step.value:
            if name.value != "needs" or not isinstance(needs, yaml.SequenceNode):
                continue
            places = [n for n, each in enumerate(needs.value) if _need(each) == source]
            if not places:
                continue
            if len(places) == len(needs.value):
                if name.start_mark.line == step.start_mark.line:
                    raise Unclear  # it stands behind the dash
                self._delete_lines(name.start_mark.line, self._last_line(needs))
            elif not needs.flow_style:
                for place in places:
                    item = needs.value[place]
                    self._dash(item)
                    self._delete_lines(item.start_mark.line, self._last_line(item))
            elif len(places) == 1:
                self._drop_from_line(needs, places[0])
            else:
                raise Unclear

    def _drop_from_line(self, needs: yaml.SequenceNode, place: int) -> None:
        item = needs.value[place]
        if place + 1 < len(needs.value):
            start, end = self._at(item.start_mark), self._at(needs.value[place + 1].start_mark)
        else:
            start, end = self._at(needs.value[place - 1].end_mark), self._at(item.end_mark)
        self._changes.append((start, end, ""))

    def _step(self, key: str) -> yaml.MappingNode:
        for step in self._steps:
            own = _value(step, "key")
            if own is not None and _text(own) == key:
                return step
        raise Unclear

    def _dash(self, node: yaml.Node) -> int:
        """The column of the dash in front of an item; raises Unclear: it stands elsewhere."""
        line = self._text[self._starts[node.start_mark.line] : self._at(node.start_mark)]
        if line.strip() != "-":
            raise Unclear
        return line.index("-")

    def _last_line(self, node: yaml.Node) -> int:
        """The line that the last of its text stands on."""
        ends = [
            leaf.end_mark.line if leaf.end_mark.column else leaf.end_mark.line - 1
            for leaf in (node, *_leaves(node))
            if not isinstance(leaf, yaml.CollectionNode) or leaf.flow_style
        ]
        last = max(ends, default=node.start_mark.line)
        while last > node.start_mark.line and self._is_empty(last):
            last -= 1
        return last

    def _is_empty(self, line: int) -> bool:
        text = self._text[self._starts[line] : self._starts[line + 1]].strip()
        return not text or text.startswith("#")

    def _at(self, mark: yaml.Mark) -> int:
        return self._starts[mark.line] + mark.column

    def _replace(self, node: yaml.Node, new: str) -> None:
        self._changes.append((self._at(node.start_mark), self._at(node.end_mark), new))

    def _insert_after(self, line: int, new: str) -> None:
        self._changes.append((self._starts[line + 1], self._starts[line + 1], new))

    def _delete_lines(self, first: int, last: int) -> None:
        self._changes.append((self._starts[first], self._starts[last + 1], ""))


def _mapping(node: yaml.Node | None) -> yaml.MappingNode:
    if not isinstance(node, yaml.MappingNode):
        raise Unclear
    return node


def _value(mapping: yaml.MappingNode, name: str) -> yaml.Node | None:
    return next((value for key, value in mapping.value if key.value == name), None)


def _text(node: yaml.Node) -> str | None:
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _need(node: yaml.Node) -> str | None:
    own = _value(node, "step") if isinstance(node, yaml.MappingNode) else node
    return None if own is None else _text(own)


def _leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    """All scalars within, and lists and mappings that are written in one line."""
    if not isinstance(node, yaml.CollectionNode):
        yield node
        return
    if node.flow_style and not node.value:
        yield node
    for each in node.value:
        for part in each if isinstance(each, tuple) else (each,):
            yield from _leaves(part)
    if node.flow_style and node.value:
        yield _End(node)


class _End(yaml.ScalarNode):
    """Where a list or mapping in one line ends, behind the last of its scalars."""

    def __init__(self, node: yaml.Node) -> None:
        super().__init__("", "", node.end_mark, node.end_mark)


def _plain(key: str) -> str:
    """The key as YAML that reads it as a text."""
    return f'"{key}"' if key in WORDS or NUMBER.fullmatch(key) else key
