"""What the bench prints: a paragraph for each measurement, then tables."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.bench.results.comparison import Change, Direction
from tests.bench.results.goals import CONSOLE, FIGURES, Figure
from tests.bench.results.repeats import Figures, flattened

WIDTH = 110
MOST_WORDS = 60  # figures of one measurement that are printed; more have a table of their own
Rows = Sequence[Sequence[str]]
MET_AIM, MET_MUST, MISSED = "✓✓", "✓", "✗"


def told(kind: str | None, name: str, figures: Figures) -> str:
    """All figures of one measurement; those of each size, of growth, begin a line."""
    parts = {"": figures}
    if all(_has_parts(part) for part in figures.values()):
        parts = {f"{size}: ": part for size, part in figures.items()}
    lines = [f"{size}{', '.join(_words(part))}" for size, part in parts.items()]
    if sum(line.count(", ") for line in lines) > MOST_WORDS:
        lines = [f"{len(flattened(figures))} figures, in bench.json"]
    head = f"{kind or '':<16}{name:<16}"
    return "\n".join(
        textwrap.fill(
            line,
            width=WIDTH,
            initial_indent=" " * len(head) if n else head,
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for n, line in enumerate(lines)
    )


def _has_parts(value: object) -> bool:
    return isinstance(value, dict) and any(isinstance(part, dict) for part in value.values())


def _words(figures: Mapping[str, Any]) -> Iterator[str]:
    for name, value in figures.items():
        called = name.replace("_", " ")
        if _has_parts(value):
            yield from (f"{called} {words}" for words in _words(value))
        elif isinstance(value, dict):
            parts = (f"{part.replace('_', ' ')} {number(of)}" for part, of in value.items())
            yield f"{called}: {' / '.join(parts)}"
        elif name != "all" and value is not None and not isinstance(value, list):
            yield f"{called} {number(value)}"


def number(value: object) -> str:
    """As people read it."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def summary(
    result: Mapping[str, Any], *, judged: bool, form: Callable[[Rows], str] | None = None
) -> str:
    """What matters most of a result, by database; empty when none of it was measured.

    Args:
        judged: beside the goals, which are for more than a quick look.
        form: makes a table of rows; the default aligns them.
    """
    databases: Mapping[str, Figures] = result.get("databases", {})
    kinds = list(databases)
    lines = []
    rows = []
    for figure in FIGURES:
        found = [figure.found(databases[kind]) for kind in kinds]
        if any(value is not None for value in found):
            rows.append(_row(figure, kinds, found, judged=judged))
    if rows:
        head = ["", *(["must", "aim"] if judged else []), *kinds]
        lines.append((form or aligned)([head, *rows]))
    lines += _reasons(databases)
    if growth := _growth(databases):
        lines.append((form or aligned)([["a run costs, beside", *kinds], *growth]))
    slowest = CONSOLE.found(result.get("console", {}))
    if slowest is not None:
        goals = f" (must {CONSOLE.must}, aim {CONSOLE.aim})" if judged else ""
        value = _judged(CONSOLE, "", slowest) if judged else _shown(CONSOLE, slowest)
        lines.append(f"{CONSOLE.label}: {value}{goals}")
    if lines and judged:
        lines.append(f"{MET_AIM} as aimed for, {MET_MUST} as it must be, {MISSED} not")
    return "\n".join(lines)


def _reasons(databases: Mapping[str, Figures]) -> Iterator[str]:
    """Why a row does not show what it does elsewhere, a line for each reason."""
    for figure in FIGURES:
        kinds: dict[str, list[str]] = {}
        for kind, figures in databases.items():
            if reason := figure.reason(figures):
                kinds.setdefault(reason, []).append(kind)
        yield from (
            f"{figure.label.strip()}, on {', '.join(concerned)}: {reason}"
            for reason, concerned in kinds.items()
        )


def _growth(databases: Mapping[str, Figures]) -> list[list[str]]:
    """By what grew and its size: processor time of a run, and how many times the first size's."""
    rows: dict[str, list[str]] = {}
    for number_of_kind, figures in enumerate(databases.values()):
        for name, steps in figures.items():
            what = name.removeprefix("growth_").replace("_", " ")
            for size, step in steps.items() if name.startswith("growth_") else ():
                row = rows.setdefault(f"{int(size):,} {what}", [""] * len(databases))
                cost = step["cpu_us_per_run"]["admin"] + step["cpu_us_per_run"]["database"]
                row[number_of_kind] = f"{cost} µs, {step['cost_ratio']:.2f} ×"
    return [[label, *cells] for label, cells in rows.items()]


def _row(
    figure: Figure, kinds: Sequence[str], found: Sequence[float | None], *, judged: bool
) -> list[str]:
    if not judged:
        return [figure.label, *(_shown(figure, value) for value in found)]
    aims = list(dict.fromkeys(figure.aim_on(kind) for kind in kinds))
    return [
        figure.label,
        _shown(figure, figure.must),
        " / ".join(filter(None, (_shown(figure, aim) for aim in aims))),
        *(_judged(figure, kind, value) for kind, value in zip(kinds, found, strict=True)),
    ]


def _judged(figure: Figure, kind: str, value: float | None) -> str:
    shown = _shown(figure, value)
    aim = figure.aim_on(kind)
    if value is None or (figure.must is None and aim is None):
        return shown
    if aim is not None and figure.meets(value, aim):
        return f"{shown} {MET_AIM}"
    if figure.must is not None and figure.meets(value, figure.must):
        return f"{shown} {MET_MUST}"
    return f"{shown} {MISSED}"


def _shown(figure: Figure, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1%}" if figure.percent else number(value)


def compared(changes: Sequence[Change], differences: Sequence[str]) -> str:
    """The figures that differ by more than noise, worse ones first."""
    moved = [each for each in changes if each.direction is not Direction.SAME]
    moved.sort(key=lambda each: (each.direction is not Direction.WORSE, each.name))
    if not changes:
        return "The earlier result has none of these figures."
    lines = [f"Beside the earlier result: {len(changes)} figures are in both."]
    if differences:
        lines.append("They say little about each other:")
        lines += [f"  {each}" for each in differences]
    if moved:
        rows = [["", "before", "now", "ratio", ""]]
        rows += [
            [c.name, number(c.before), number(c.now), f"{c.ratio:.2f}", c.direction.value]
            for c in moved
        ]
        lines.append(aligned(rows))
    lines.append(f"{len(changes) - len(moved)} are the same but for noise (10 %).")
    return "\n".join(lines)


def markdown(rows: Rows) -> str:
    """A table of Markdown, of which the first row is the head."""
    head, *rest = [f"| {' | '.join(row)} |".replace("|   ", "| … ", 1) for row in rows]
    return "\n".join([head, "|---" * len(rows[0]) + "|", *rest, ""])


def aligned(rows: Rows) -> str:
    """Columns, the first one flush left, all others flush right."""
    columns = max(len(row) for row in rows)
    filled = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(len(row[n]) for row in filled) for n in range(columns)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in filled
    )
