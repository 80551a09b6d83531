"""Reads a section of an agent's configuration file and collects every problem."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any


class ConfigTable:
    """One table of the file. Every getter appends to `problems`, and then returns the default.

        config = ConfigTable("http", table, problems)
        timeout = config.number("timeout_seconds", 60.0, least=0.1, most=3600)
        config.finish()

    Args:
        name: of the section, as in the file: "sql.connections.crm".
        table: what `tomllib` read; anything but a table is a problem.
        problems: one sentence each: "section.field: what is wrong; what to write".
    """

    def __init__(self, name: str, table: object, problems: list[str]) -> None:
        self.name = name
        self.problems = problems
        self._count = len(problems)
        self._known: set[str] = set()
        self._table: Mapping[str, Any] = {}
        if isinstance(table, Mapping):
            self._table = table
        else:
            problems.append(f"{name}: this is {_kind(table)}; write a table: [{name}]")

    @property
    def is_good(self) -> bool:
        """Whether `problems` has not grown since this table was opened, whoever appended."""
        return len(self.problems) == self._count

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def problem(self, field: str, text: str) -> None:
        """Append a problem of this field."""
        self.problems.append(f"{self.name}.{field}: {text}")

    def has(self, field: str) -> bool:
        """Whether the file sets it."""
        self._known.add(field)
        return field in self._table

    def text(self, field: str, default: str = "") -> str:
        """A text; an empty one counts as not set."""
        value = self._get(field, default, str, "a text in quotes")
        return value or default

    def flag(self, field: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self._get(field, default, bool, "true or false"))

    def whole(self, field: str, default: int, *, least: int, most: int) -> int:
        """A whole number from `least` to `most`."""
        wanted = f"a whole number from {least:,} to {most:,}"
        value: int = self._get(field, default, int, wanted)
        if field in self._table and not least <= value <= most:
            self.problem(field, f"it is {value:,}; write {wanted}")
            return default
        return value

    def whole_or_none(self, field: str, *, least: int, most: int) -> int | None:
        """The same for one without a default; None: not set."""
        return self.whole(field, least, least=least, most=most) if self.has(field) else None

    def number(self, field: str, default: float, *, least: float, most: float) -> float:
        """A number from `least` to `most`."""
        wanted = f"a number from {least:g} to {most:g}"
        value = self._get(field, default, (int, float), wanted)
        if field in self._table and not (math.isfinite(value) and least <= value <= most):
            self.problem(field, f"it is {value:g}; write {wanted}")
            return default
        return float(value)

    def choice(self, field: str, default: str, choices: tuple[str, ...]) -> str:
        """One of these texts."""
        value = self.text(field, default)
        if value not in choices:
            close = get_close_matches(value, choices, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"write one of {', '.join(choices)}"
            self.problem(field, f"{value!r} is not known; {hint}")
            return default
        return value

    def texts(self, field: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """A list of texts, none of them empty."""
        wanted = 'a list of texts: ["one", "two"]'
        value = self._get(field, list(default), list, wanted)
        if not all(isinstance(each, str) and each for each in value):
            self.problem(field, f"not every entry is a text; write {wanted}")
            return default
        return tuple(value)

    def text_by_name(self, field: str) -> dict[str, str]:
        """A table of texts: `{ name = "text" }`."""
        wanted = 'a table of texts: { name = "text" }'
        value = self._get(field, {}, dict, wanted)
        if not all(isinstance(each, str) for each in value.values()):
            self.problem(field, f"not every value is a text; write {wanted}")
            return {}
        return dict(value)

    def table(self, field: str) -> ConfigTable:
        """A table inside this one; an empty one if it is not set."""
        value = self._get(field, {}, dict, f"a table: [{self.name}.{field}]")
        return ConfigTable(f"{self.name}.{field}", value, self.problems)

    def tables(self, field: str) -> dict[str, ConfigTable]:
        """The tables inside a table, by name: `[sql.connections.crm]`."""
        value = self._get(field, {}, dict, f"tables: [{self.name}.{field}.NAME]")
        return {
            name: ConfigTable(f"{self.name}.{field}.{name}", inner, self.problems)
            for name, inner in value.items()
        }

    def finish(self) -> bool:
        """Report every field that nobody asked for; returns whether the whole table is good."""
        for field in self._table:
            if field in self._known:
                continue
            close = get_close_matches(field, self._known, n=1)
            known = ", ".join(sorted(self._known))
            hint = f"did you mean {close[0]!r}?" if close else f"this section has: {known}"
            self.problem(field, f"there is no such setting; {hint}")
        return self.is_good

    def _get(self, field: str, default: Any, kind: type | tuple[type, ...], wanted: str) -> Any:
        if not self.has(field):
            return default
        value = self._table[field]
        if isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool):
            return value
        self.problem(field, f"this is {_kind(value)}; write {wanted}")
        return default


def _kind(value: object) -> str:
    names = {bool: "true or false", str: "a text", int: "a number", float: "a number"}
    names |= {list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")
