"""Prints answers as the user asked: a table, JSON or YAML."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TextIO

from tickwheel_admin.cli.client.output.style import Style, style_of
from tickwheel_admin.cli.client.output.table import Item, TableColumn, table_lines
from tickwheel_admin.cli.client.output.words import NOTHING, pad, visible, width_of

_C1 = re.compile("[\x7f-\x9f]")  # json leaves them as they are, and terminals obey them


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtable:
    """A table within the answer for one object."""

    title: str
    items: Iterable[Item]
    columns: Sequence[TableColumn]


class Printer:
    """Writes to one stream, in one format.

    Args:
        form: `table`, `json` or `yaml`.
        out: None: the standard output.
        style: None: as the stream is.
    """

    def __init__(
        self, form: str = "table", *, out: TextIO | None = None, style: Style | None = None
    ) -> None:
        self._form = form
        self._out = sys.stdout if out is None else out
        self.style = style_of(self._out) if style is None else style

    @property
    def is_for_people(self) -> bool:
        """Whether tables and sentences are printed."""
        return self._form == "table"

    def items(self, items: Iterable[Item], columns: Sequence[TableColumn], *, none: str) -> None:
        """A list, each item as soon as it is known; `none` is told where there are none."""
        if self._form == "json":
            self._json_items(items)
        elif self._form == "yaml":
            self._yaml_items(items)
        else:
            lines = 0
            for line in table_lines(items, columns, self.style):
                self.line(line)
                lines += 1
            if not lines:
                self.line(none)

    def one(
        self, item: Item, rows: Sequence[TableColumn], *, sections: Sequence[Subtable] = ()
    ) -> None:
        """An object: a line for each field that says something, then its tables."""
        if self._form != "table":
            self.value(item)
            return
        widest = max(width_of(row.title) for row in rows)
        for row in rows:
            cell = row.cell(item, self.style)
            if cell == NOTHING:
                continue
            if row.colour_of is not None:
                cell = self.style.coloured(cell, row.colour_of(item))
            self.line(f"{pad(row.title, widest)}  {cell}")
        for section in sections:
            lines = list(table_lines(section.items, section.columns, self.style))
            if lines:
                self.line("")
                self.line(self.style.strong(f"{section.title}:"))
                for line in lines:
                    self.line(f"  {line}")

    def done(self, sentence: str, facts: Mapping[str, Any]) -> None:
        """What a command did: a sentence for people, its facts for programs."""
        if self._form == "table":
            self.line(visible(sentence, lines=True))
        else:
            self.value(facts)

    def value(self, value: Any) -> None:
        """Any value: JSON, or YAML if that was asked for."""
        if self._form == "yaml":
            self._out.write(_yaml(value))
        else:
            self.line(_json(value, indent=2))

    def pieces(self, pieces: Iterable[bytes]) -> None:
        """Text as it arrives, whatever the format."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for piece in pieces:
            self._out.write(decoder.decode(piece))
        self._out.write(decoder.decode(b"", final=True))

    def line(self, line: str) -> None:
        """One line as it is."""
        self._out.write(line + "\n")

    def flush(self) -> None:
        """What was printed is there for its reader now."""
        self._out.flush()

    def _json_items(self, items: Iterable[Item]) -> None:
        rest = iter(items)
        first = next(rest, None)
        if first is None:
            self.line("[]")
            return
        opening = "["
        for item in chain([first], rest):
            self._out.write(f"{opening}\n{_indented(_json(item, indent=2))}")
            opening = ","
        self.line("\n]")

    def _yaml_items(self, items: Iterable[Item]) -> None:
        count = 0
        for item in items:
            self._out.write(_yaml([item]))
            count += 1
        if not count:
            self.line("[]")


def _indented(text: str) -> str:
    return "  " + text.replace("\n", "\n  ")


def _json(value: Any, *, indent: int | None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _C1.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _yaml(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(value, allow_unicode=True, sort_keys=False, width=100)
    return text
