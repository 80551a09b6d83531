"""Tables whose columns fit a terminal; rows are written as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from tickwheel_admin.cli.client.output.style import Style
from tickwheel_admin.cli.client.output.words import cut, length, local_time, pad, plain, width_of

Item = Mapping[str, Any]
_GAP = "  "
_FIRST = 100  # rows that decide on the widths; those after them are not waited for
_NARROWEST = 8  # of a column that is cut
_READABLE = 24  # so many of its characters are worth more than a column that can be left out


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column: its title, and the cell of an item."""

    title: str
    cell: Callable[[Item, Style], str]
    right: bool = False
    cuttable: bool = False  # may be cut where the terminal is too narrow
    colour_of: Callable[[Item], str] | None = None  # the word whose colour the cell has
    optional: bool = False  # left out where the terminal is too narrow, the last one first


def field_of(item: Item, path: str) -> Any:
    """A field of an item, or of an object in it: `config.name`; None if there is none."""
    value: Any = item
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def text(title: str, path: str, *, cuttable: bool = False) -> TableColumn:
    """A column with a field as it is."""
    return TableColumn(
        title=title, cell=lambda item, _: plain(field_of(item, path)), cuttable=cuttable
    )


def number(title: str, path: str) -> TableColumn:
    """A column with a number, or an id."""
    return TableColumn(title=title, cell=lambda item, _: plain(field_of(item, path)), right=True)


def instant(title: str, path: str) -> TableColumn:
    """A column with an instant."""
    return TableColumn(
        title=title, cell=lambda item, style: local_time(field_of(item, path), style.zone)
    )


def duration(title: str, path: str) -> TableColumn:
    """A column with a number of milliseconds."""
    return TableColumn(title=title, cell=lambda item, _: length(field_of(item, path)), right=True)


def state(title: str, path: str) -> TableColumn:
    """A column with a state, in its colour."""
    return TableColumn(
        title=title,
        cell=lambda item, _: plain(field_of(item, path)),
        colour_of=lambda item: str(field_of(item, path)),
    )


def made_state(title: str, make: Callable[[Item], str]) -> TableColumn:
    """A column with a state that is made from the whole item, in its colour."""
    return TableColumn(title=title, cell=lambda item, _: plain(make(item)), colour_of=make)


def made(
    title: str, make: Callable[[Item], object], *, right: bool = False, cuttable: bool = False
) -> TableColumn:
    """A column whose cells are made from the whole item."""
    return TableColumn(
        title=title, cell=lambda item, _: plain(make(item)), right=right, cuttable=cuttable
    )


def optional(column: TableColumn) -> TableColumn:
    """The column, left out where the terminal is too narrow."""
    return replace(column, optional=True)


def table_lines(
    items: Iterable[Item], columns: Sequence[TableColumn], style: Style
) -> Iterator[str]:
    """The lines of a table with its titles; none if there is no item."""
    rest = iter(items)
    first = list(islice(rest, _FIRST))
    if not first:
        return
    rows = [[column.cell(item, style) for column in columns] for item in first]
    columns, rows = _without_optional(columns, rows, style)
    widths = _widths(columns, rows, style)
    titles = [
        pad(each.title, width, right=each.right)
        for each, width in zip(columns, widths, strict=True)
    ]
    yield style.strong(_GAP.join(titles).rstrip())
    for item, row in chain(
        zip(first, rows, strict=True),
        ((item, [column.cell(item, style) for column in columns]) for item in rest),
    ):
        yield _line(item, row, columns, widths, style)


def _line(
    item: Item,
    row: Sequence[str],
    columns: Sequence[TableColumn],
    widths: Sequence[int],
    style: Style,
) -> str:
    cells = []
    for cell, column, width in zip(row, columns, widths, strict=True):
        shown = cut(cell, width) if style.columns is not None and column.cuttable else cell
        padded = pad(shown, width, right=column.right)
        if column.colour_of is not None:
            padded = style.coloured(padded, column.colour_of(item))
        cells.append(padded)
    return _GAP.join(cells).rstrip()


def _without_optional(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], style: Style
) -> tuple[list[TableColumn], list[list[str]]]:
    """The columns, and their cells, that can be read in the width of the terminal."""
    kept = list(range(len(columns)))
    if style.columns is not None:
        natural = _natural_widths(columns, rows)
        needed = [
            min(width, max(_READABLE, width_of(column.title))) if column.cuttable else width
            for column, width in zip(columns, natural, strict=True)
        ]
        for index in reversed(range(len(columns))):
            if sum(needed[each] + len(_GAP) for each in kept) - len(_GAP) <= style.columns:
                break
            if columns[index].optional:
                kept.remove(index)
    return [columns[each] for each in kept], [[row[each] for each in kept] for row in rows]


def _natural_widths(columns: Sequence[TableColumn], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(width_of(column.title), *(width_of(row[index]) for row in rows))
        for index, column in enumerate(columns)
    ]


def _widths(
    columns: Sequence[TableColumn], rows: Sequence[Sequence[str]], style: Style
) -> list[int]:
    widths = _natural_widths(columns, rows)
    if style.columns is None:
        return widths
    while sum(widths) + len(_GAP) * (len(widths) - 1) > style.columns:
        cuttable = [
            index
            for index, column in enumerate(columns)
            if column.cuttable and widths[index] > _NARROWEST
        ]
        if not cuttable:
            break  # the terminal wraps what remains
        widths[max(cuttable, key=lambda index: widths[index])] -= 1
    return widths
